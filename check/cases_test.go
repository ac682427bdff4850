package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/check"
	"memopt/planner/offload"
	"memopt/planner/remat"
	"memopt/view/report"
)

// object is a JSON object.
type object = map[string]any

// verbs of steps.
var verbs = []string{"compute", "free", "offload", "reload", "wait"}

// plan is an instance with an answer, as their files have them.
type plan struct {
	name             string
	instance, answer object
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// instanceText is the instance with its format in front, where memopt wants it.
func instanceText(in object) string {
	if in["format"] == nil {
		return text(in)
	}
	rest := maps.Clone(in)
	delete(rest, "format")
	return `{"format":` + text(in["format"]) + "," + text(rest)[1:]
}

// clone is a deep copy.
func (p *plan) clone() *plan {
	c := &plan{name: p.name}
	for from, to := range map[*object]*object{&p.instance: &c.instance, &p.answer: &c.answer} {
		if err := json.Unmarshal([]byte(text(*from)), to); err != nil {
			panic(err)
		}
	}
	return c
}

func (p *plan) check() *check.Report {
	r, err := check.Answer(strings.NewReader(text(p.answer)), strings.NewReader(text(p.instance)))
	if err != nil {
		panic(err)
	}
	return r
}

func (p *plan) steps() []object {
	var steps []object
	for _, s := range p.answer["steps"].([]any) {
		steps = append(steps, s.(object))
	}
	return steps
}

func (p *plan) set(steps []object) {
	list := []any{}
	for _, s := range steps {
		list = append(list, s)
	}
	p.answer["steps"] = list
}

// verb of a step, and the id that it is about.
func verb(s object) (string, any) {
	for _, v := range verbs {
		if id, ok := s[v]; ok {
			return v, id
		}
	}
	return "", nil
}

func step(verb string, id any) object { return object{verb: id} }

// shape is an instance by names, for oracles and mutators.
type shape struct {
	order    []any // ids of nodes
	cost     map[any]float64
	inputs   map[any][]any // of a node; without the values that live throughout
	outputs  map[any][]any // of a node
	maker    map[any]any   // of a value
	size     map[any]float64
	keep     map[any]bool
	base     map[any]any // of a view's output
	work     map[any]float64
	resident float64
	views    map[any][]any // by value: outputs that are views of it
	node     map[any]object
}

func floatOf(v any) float64 {
	f, _ := v.(float64)
	return f
}

func shapeOf(in object) *shape {
	s := &shape{cost: map[any]float64{}, inputs: map[any][]any{}, outputs: map[any][]any{}, maker: map[any]any{},
		size: map[any]float64{}, keep: map[any]bool{}, base: map[any]any{}, work: map[any]float64{},
		views: map[any][]any{}, node: map[any]object{}}
	fixed := map[any]bool{}
	live, _ := in["live"].([]any)
	for _, v := range live {
		fixed[v.(object)["id"]] = true
		s.resident += floatOf(v.(object)["size"])
	}
	for _, x := range in["nodes"].([]any) {
		n := x.(object)
		id := n["id"]
		s.order, s.node[id] = append(s.order, id), n
		s.cost[id], s.work[id] = floatOf(n["cost"]), floatOf(n["workspace"])
		inputs, _ := n["inputs"].([]any)
		for _, u := range inputs {
			if !fixed[u] {
				s.inputs[id] = append(s.inputs[id], u)
			}
		}
		outputs, ok := n["outputs"].([]any)
		if !ok {
			outputs = []any{n}
		}
		alias, view := n["alias"]
		for _, o := range outputs {
			o := o.(object)
			s.outputs[id] = append(s.outputs[id], o["id"])
			s.maker[o["id"]] = id
			s.keep[o["id"]] = o["keep"] == true
			if s.size[o["id"]] = floatOf(o["size"]); view {
				if s.size[o["id"]] = 0; !fixed[alias] {
					s.base[o["id"]] = alias
					s.views[alias] = append(s.views[alias], o["id"])
				}
			}
			for b, ok := s.base[o["id"]]; ok && s.keep[o["id"]]; b, ok = s.base[b] {
				s.keep[b] = true
			}
		}
	}
	return s
}

// numbers are the claims of a schedule by the plain reading of the rules: sums over sets of names at every step, and
// the times of copies from a list of all of them. It takes valid schedules alone.
func numbers(s *shape, steps []object, rate, latency, unit float64) object {
	type copied struct {
		of        any
		out       bool
		end, size float64
		at        int
	}
	live := map[any]bool{}
	var copies []copied
	now, cost, peak := 0.0, 0.0, s.resident
	sum := func() float64 {
		total := s.resident
		for id := range live {
			total += s.size[id]
		}
		return total
	}
	queue := func(i int, u any, out bool, after float64) {
		start := max(now, after)
		for _, c := range copies {
			if c.out == out {
				start = max(start, c.end)
			}
		}
		copies = append(copies, copied{u, out, start + latency*unit/1e6 + s.size[u]/rate*unit, s.size[u], i})
	}
	for i, st := range steps {
		switch v, id := verb(st); v {
		case "compute":
			now += s.cost[id]
			cost += s.cost[id]
			extra := s.work[id]
			for _, u := range s.outputs[id] {
				if live[u] {
					extra += s.size[u]
				}
				live[u] = true
			}
			peak = max(peak, sum()+extra)
		case "free":
			delete(live, id)
		case "offload":
			queue(i, id, true, 0)
		case "reload":
			end := 0.0
			for _, c := range copies {
				if c.of == id && c.out {
					end = c.end
				}
			}
			queue(i, id, false, end)
			live[id] = true
			peak = max(peak, sum())
		case "wait":
			for _, c := range copies {
				if c.of == id {
					now = max(now, c.end)
				}
			}
		}
	}
	// A host copy lives from its offload until the wait for its last reload before the value is made anew.
	hostPeak, moved, host := 0.0, 0.0, make([]float64, len(steps)+1)
	for _, c := range copies {
		if !c.out {
			continue
		}
		moved += c.size
		end, in := len(steps), false
	life:
		for i := c.at + 1; i < len(steps); i++ {
			switch v, id := verb(steps[i]); {
			case v == "compute" && slices.Contains(s.outputs[id], c.of), v == "offload" && id == c.of:
				end = min(end, i)
				break life
			case v == "reload" && id == c.of:
				in, end = true, len(steps)
			case v == "wait" && id == c.of && in:
				end = min(end, i)
			}
		}
		for i := c.at; i < end; i++ {
			host[i] += c.size
			hostPeak = max(hostPeak, host[i])
		}
	}
	base := 0.0
	for _, id := range s.order {
		base += s.cost[id]
	}
	n := object{"cost": cost, "base_cost": base, "peak": peak, "overhead": 0.0, "cost_lower_bound": base,
		"peak_lower_bound": 1.0, "optimal": false, "in_order": false, "cost_lower_bound_order": "any", "solver": "test"}
	if rate > 0 {
		n["makespan"], n["host_peak"], n["moved_bytes"] = now, hostPeak, moved
		n["link"] = object{"bytes_per_second": rate, "latency_us": latency}
	}
	if base > 0 {
		n["overhead"] = (now - base) / base
	}
	return n
}

// randomInstance makes an instance of version 2 with nodes of all kinds.
func randomInstance(rng *rand.Rand, nodes int) object {
	in := object{"format": "memopt-instance", "version": 2, "cost_unit": []string{"us", "ms"}[rng.IntN(2)],
		"live": []object{{"id": "w", "size": rng.IntN(50)}}}
	if rng.IntN(3) == 0 {
		in["order"] = "given"
	}
	var list []object
	var values []string
	for i := range nodes {
		id := fmt.Sprintf("n%d", i)
		n := object{"id": id, "cost": float64(1+rng.IntN(40)) / 4}
		var inputs []string
		for k, u := range values {
			if rng.IntN(len(values)) < 1 || len(values)-k <= 2 && rng.IntN(2) == 0 {
				inputs = append(inputs, u)
			}
		}
		view := len(inputs) > 0 && rng.IntN(5) == 0
		if view {
			n["alias"], inputs = inputs[0], inputs[:1]
			delete(n, "cost")
		} else if rng.IntN(10) == 0 {
			n["recompute"] = false
		}
		if rng.IntN(3) == 0 {
			inputs = append(inputs, "w")
		}
		n["inputs"] = inputs
		if rng.IntN(5) == 0 && !view {
			n["workspace"] = rng.IntN(40)
		}
		size := func() int { return 10 + rng.IntN(200) }
		if !view && rng.IntN(4) == 0 {
			var outputs []object
			for k := range 1 + rng.IntN(2) {
				o := object{"id": fmt.Sprintf("%s.%d", id, k), "size": size()}
				if rng.IntN(8) == 0 {
					o["keep"] = true
				}
				outputs = append(outputs, o)
				values = append(values, o["id"].(string))
			}
			n["outputs"] = outputs
		} else {
			if !view {
				n["size"] = size()
			}
			if rng.IntN(10) == 0 {
				n["keep"] = true
			}
			values = append(values, id)
		}
		list = append(list, n)
	}
	in["nodes"] = list
	return in
}

// trainingInstance has a forward half whose values a backward half reads in the opposite order.
func trainingInstance(rng *rand.Rand, layers int) object {
	in := object{"format": "memopt-instance", "version": 2, "cost_unit": "us", "live": []object{{"id": "w", "size": 8}}}
	var list []object
	last, grad := "", ""
	for i := range layers {
		id := fmt.Sprintf("h%d", i)
		n := object{"id": id, "cost": 1 + float64(rng.IntN(20)), "size": 20 + rng.IntN(30), "inputs": []string{"w"}}
		if i > 0 {
			n["inputs"] = []string{last}
		}
		list, last = append(list, n), id
	}
	for i := layers - 1; i >= 0; i-- {
		id := fmt.Sprintf("g%d", i)
		n := object{"id": id, "cost": 2 + float64(rng.IntN(20)), "size": 20 + rng.IntN(30), "inputs": []string{
			fmt.Sprintf("h%d", i)}}
		if grad != "" {
			n["inputs"] = []string{grad, fmt.Sprintf("h%d", i)}
		}
		list, grad = append(list, n), id
	}
	in["nodes"] = list
	return in
}

// solved is the answer of solve at a share of the peak of computing every node once; nil where there is none.
func solved(t testing.TB, name string, in object, share float64) *plan {
	t.Helper()
	first, second, err := remat.ReadAny(strings.NewReader(instanceText(in)))
	require.NoError(t, err)
	var b bytes.Buffer
	greedy := remat.Options{Budget: 1 << 40, Solver: "greedy", Nodes: 1}
	opts := remat.Options{Budget: 1 << 40, Nodes: 20_000, First: true}
	if first != nil {
		once, err := remat.Solve(context.Background(), first, greedy)
		require.NoError(t, err)
		opts.Budget = max(1, int64(share*float64(once.Peak)))
		r, err := remat.Solve(context.Background(), first, opts)
		if r == nil {
			require.ErrorIs(t, err, remat.ErrInfeasible)
			return nil
		}
		require.NoError(t, report.SolveJSON(&b, first, r))
	} else {
		once, err := second.Solve(context.Background(), greedy)
		require.NoError(t, err)
		opts.Budget = max(1, int64(share*float64(once.Peak)))
		s, err := second.Solve(context.Background(), opts)
		if s == nil {
			require.ErrorIs(t, err, remat.ErrInfeasible)
			return nil
		}
		require.NoError(t, report.SolutionJSON(&b, second, s))
	}
	p := &plan{name: name, instance: in, answer: object{}}
	require.NoError(t, json.Unmarshal(b.Bytes(), &p.answer))
	return p.clone()
}

// planned is the answer of solve with a link, as the planner moves values; nil where there is none.
func planned(t testing.TB, name string, in object, share float64, link offload.Link) *plan {
	t.Helper()
	_, second, err := remat.ReadAny(strings.NewReader(instanceText(in)))
	require.NoError(t, err)
	once, err := second.Solve(context.Background(), remat.Options{Budget: 1 << 40, Solver: "greedy", Nodes: 1})
	require.NoError(t, err)
	second.Budget = max(1, int64(share*float64(once.Peak)))
	o := offload.Options{Link: link, HostBudget: 1 << 40, Work: 4_000_000}
	s, err := offload.Solve(context.Background(), second, o)
	if s == nil {
		require.ErrorIs(t, err, remat.ErrInfeasible)
		return nil
	}
	var b bytes.Buffer
	require.NoError(t, report.MovesJSON(&b, second, s, o))
	p := &plan{name: name, instance: in, answer: object{}}
	require.NoError(t, json.Unmarshal(b.Bytes(), &p.answer))
	return p.clone()
}

// offloaded moves values to the host over gaps between two uses of them, up to so many; nil where no value has one.
func offloaded(rng *rand.Rand, p *plan, most int, rate, latency float64) *plan {
	c := p.clone()
	s := shapeOf(c.instance)
	moved := 0
	for range 4 * most {
		steps := c.steps()
		if moved == most {
			break
		}
		id := s.order[rng.IntN(len(s.order))]
		outputs := s.outputs[id]
		if len(outputs) == 0 {
			continue
		}
		u := outputs[rng.IntN(len(outputs))]
		if _, view := s.base[u]; view || s.keep[u] || len(s.views[u]) > 0 {
			continue
		}
		// Uses of u within one life: its compute, and its readers.
		var uses []int
		var gaps [][2]int
		for i, st := range steps {
			v, of := verb(st)
			switch {
			case v == "compute" && slices.Contains(s.outputs[of], u):
				uses = []int{i}
			case v == "compute" && slices.Contains(s.inputs[of], u):
				if n := len(uses); n > 0 && i-uses[n-1] > 3 {
					gaps = append(gaps, [2]int{uses[n-1], i})
				}
				uses = append(uses, i)
			case v != "compute" && of == u:
				uses = nil
			}
		}
		if len(gaps) == 0 {
			continue
		}
		gap := gaps[rng.IntN(len(gaps))]
		cuts := []int{gap[0] + 1, gap[0] + 1 + rng.IntN(gap[1]-gap[0]), gap[0] + 1 + rng.IntN(gap[1]-gap[0]), gap[1]}
		slices.Sort(cuts)
		var next []object
		for i, st := range steps {
			for _, add := range []struct {
				at    int
				steps []object
			}{{cuts[0], []object{step("offload", u)}}, {cuts[1], []object{step("wait", u), step("free", u)}},
				{cuts[2], []object{step("reload", u)}}, {cuts[3], []object{step("wait", u)}}} {
				if add.at == i {
					next = append(next, add.steps...)
				}
			}
			next = append(next, st)
		}
		c.set(next)
		moved++
	}
	if moved == 0 {
		return nil
	}
	unit := map[any]float64{"us": 1e6, "ms": 1e3}[c.instance["cost_unit"]]
	steps := c.answer["steps"]
	c.answer = numbers(s, c.steps(), rate, latency, unit)
	c.answer["steps"], c.answer["format"], c.answer["version"] = steps, "memopt-schedule", 2
	return c
}

// plans are valid plans of all kinds: of random instances and of training graphs, with values moved and without.
func plans(t testing.TB, seed uint64, count int) []*plan {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 41))
	var all []*plan
	for i := 0; len(all) < count; i++ {
		in := randomInstance(rng, 4+rng.IntN(14))
		if i%3 == 0 {
			in = trainingInstance(rng, 3+rng.IntN(6))
		}
		p := solved(t, fmt.Sprintf("plan %d of seed %d", i, seed), in, 0.6+0.5*rng.Float64())
		if p == nil {
			continue
		}
		all = append(all, p)
		rate, latency := 1e6*(1+20*rng.Float64()), 3*rng.Float64()*float64(rng.IntN(2))
		if m := offloaded(rng, p, 1+rng.IntN(4), rate, latency); m != nil {
			m.name += ", moved"
			all = append(all, m)
		}
	}
	return all
}

// keys are sorted names of an object, so that draws repeat.
func keys[K comparable, V any](m map[K]V) []K {
	return slices.SortedFunc(maps.Keys(m), func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// read is a JSON object.
func read(t testing.TB, b []byte) object {
	t.Helper()
	o := object{}
	require.NoError(t, json.Unmarshal(b, &o))
	return o
}
