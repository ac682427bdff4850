package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"memopt/check"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
)

// Schedule is a plan whose values move as an instance (docs/instances.md) and a schedule for it, as check.Answer and
// python/src/memopt/check.py read them. The instance's nodes are those of the graph, or of the graph in parts.
type Schedule struct{ Instance, Steps []byte }

// object is a JSON object.
type object = map[string]any

// event is something that happens in a step: a verb, and the node or value of the old graph that it is about.
type event struct {
	verb string
	node graph.NodeID
	of   graph.ValueID
	seed json.Number
}

// scheduler writes a Schedule.
type scheduler struct {
	*checker
	sizes    *live.Sizes
	timeline *live.Timeline // of the old graph in the plan's order
	labels   []string
	base     []graph.ValueID       // by value of the old graph: the one whose memory it shows, or itself
	makes    [][]int32             // by value of the old graph: the places where it is made, ascending
	uses     [][]int32             // likewise where it is read
	moved    map[graph.ValueID]int // by value of the old graph: how many times it moves
	events   []event
}

// schedule writes the instance and the steps of a plan whose nodes were followed.
func (c *checker) schedule() (*Schedule, error) {
	s := &scheduler{checker: c, labels: recompute.Labels(c.old.Graph), moved: map[graph.ValueID]int{}}
	var err error
	if s.sizes, s.timeline, err = simulate(c.old, c.record.Order, c.env); err != nil {
		return nil, err
	}
	g := c.old.Graph
	s.base = make([]graph.ValueID, len(g.Values))
	s.makes, s.uses = make([][]int32, len(g.Values)), make([][]int32, len(g.Values))
	for v := range s.base {
		s.base[v] = graph.ValueID(v)
	}
	for _, id := range c.record.Order {
		if n := g.Nodes[id]; s.view(n) {
			s.base[n.Output(0)] = n.Input(0)
		}
	}
	moves := s.resolve()
	if len(c.report.Faults) > 0 {
		return nil, nil
	}
	for at, n := range c.new.Nodes {
		for _, v := range operands(n) {
			if u := c.stands[v]; u != graph.NoValue {
				s.uses[u] = append(s.uses[u], int32(at))
			}
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue && c.stands[v] != graph.NoValue {
				s.makes[c.stands[v]] = append(s.makes[c.stands[v]], int32(at))
			}
		}
	}
	seeds := map[string]json.Number{}
	for _, x := range c.record.Seeds {
		seeds[x.Node] = x.Seed
	}
	for at, label := range recompute.Labels(c.new) {
		s.before(moves[at], int32(at))
		if id := c.origin[at]; id != graph.NoNode {
			s.events = append(s.events, event{verb: "compute", node: id, seed: seeds[label]})
		}
	}
	return s.write()
}

// view tells whether a node's output shows a value that lives in the arena.
func (s *scheduler) view(n *graph.Node) bool {
	return s.sizes.View(n) && n.Output(0) != graph.NoValue && n.Input(0) != graph.NoValue &&
		!live.Persistent(s.old.Graph, n.Input(0)) && !live.Persistent(s.old.Graph, n.Output(0))
}

// operands are the values that a node reads.
func operands(n *graph.Node) (list []graph.ValueID) {
	for _, v := range slices.Concat(n.Inputs, n.Captures()) {
		if v != graph.NoValue && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// resolve finds the moves' steps, by the place of the new graph's node that follows them: copies to the host,
// waits for them, copies back, waits for those.
func (s *scheduler) resolve() map[int][4][]graph.ValueID {
	at := map[string]int{}
	for i, label := range recompute.Labels(s.new) {
		at[label] = i
	}
	all, turns := map[int][4][]graph.ValueID{}, map[int][]int{} // by place: of the copies back
	for i, m := range s.record.Moves {
		v, ok := s.new.Lookup(m.Value)
		if ok {
			v = s.stands[v]
		}
		if !ok || v == graph.NoValue || s.old.Graph.Values[v].Def == graph.NoNode {
			s.fault("unknown", -1, m.Value, "move %d: the graph makes no value %q", i, m.Value)
			continue
		}
		s.moved[v]++
		for k, label := range []string{m.Offload, m.Free, m.Reload, m.Wait} {
			if label == "" {
				continue // a missing step is a fault where the steps need it
			}
			place, ok := at[label]
			if !ok {
				s.fault("unknown", -1, m.Value, "move %d: the graph has no node %q", i, label)
				continue
			}
			lists := all[place]
			if k == 1 && m.Offload == "" {
				lists[1] = append(lists[1], ^v) // no copy to wait for
			} else {
				at := len(lists[k])
				if k == 2 {
					for at > 0 && turns[place][at-1] > m.Turn {
						at--
					}
					turns[place] = slices.Insert(turns[place], at, m.Turn)
				}
				lists[k] = slices.Insert(lists[k], at, v)
			}
			all[place] = lists
		}
	}
	return all
}

// before adds the steps of moves before a node.
func (s *scheduler) before(lists [4][]graph.ValueID, at int32) {
	for _, v := range lists[0] {
		s.add("offload", v)
	}
	for _, v := range lists[1] {
		if v < 0 {
			s.add("free", ^v)
			continue
		}
		s.add("wait", v)
		s.add("free", v)
	}
	for _, v := range lists[2] {
		s.add("reload", v)
	}
	for _, v := range lists[3] {
		s.add("wait", v)
		s.renew(v, at)
	}
}

func (s *scheduler) add(verb string, v graph.ValueID) {
	s.events = append(s.events, event{verb: verb, of: v})
}

// renew computes those views of a value anew that were made before a place and are read from there on.
func (s *scheduler) renew(v graph.ValueID, at int32) {
	for w := range s.base {
		if w := graph.ValueID(w); s.base[w] == v && w != v && len(s.makes[w]) > 0 && s.makes[w][0] < at &&
			s.readFrom(w, at) {
			s.events = append(s.events, event{verb: "compute", node: s.old.Graph.Values[w].Def})
			s.renew(w, at)
		}
	}
}

// readFrom tells whether a value, or a view of it that was made before a place, is read from there on, before it is
// made anew.
func (s *scheduler) readFrom(v graph.ValueID, at int32) bool {
	next := func(list []int32) int32 {
		if i, _ := slices.BinarySearch(list, at); i < len(list) {
			return list[i]
		}
		return int32(len(s.new.Nodes))
	}
	if used, made := next(s.uses[v]), next(s.makes[v]); used <= made && used < int32(len(s.new.Nodes)) {
		return true
	}
	for w := range s.base {
		if w := graph.ValueID(w); s.base[w] == v && w != v && len(s.makes[w]) > 0 && s.makes[w][0] < at &&
			s.readFrom(w, at) {
			return true
		}
	}
	return false
}

// write writes the instance, and the events with a step that frees each value behind its last use.
func (s *scheduler) write() (*Schedule, error) {
	g := s.old.Graph
	nodes := []object{}
	for _, id := range s.record.Order {
		nodes = append(nodes, s.node(graph.NodeID(id)))
	}
	needed := make([]bool, len(g.Values))
	for v := range needed {
		needed[v] = live.Persistent(g, graph.ValueID(v))
	}
	for _, d := range g.Outputs {
		for v := d.Value; ; v = s.base[v] {
			if needed[v] = true; s.base[v] == v {
				break
			}
		}
	}
	steps := []object{} // from the last to the first
	use := func(v graph.ValueID) {
		var freed []object
		for {
			if !needed[v] {
				needed[v] = true
				freed = append(freed, object{"free": g.ValueName(v)})
			}
			if s.base[v] == v {
				break
			}
			v = s.base[v]
		}
		slices.Reverse(freed)
		steps = append(steps, freed...)
	}
	for i := len(s.events) - 1; i >= 0; i-- {
		e := &s.events[i]
		if e.verb == "compute" {
			n := g.Nodes[e.node]
			for _, v := range n.Outputs {
				if v != graph.NoValue {
					use(v)
				}
			}
			for _, v := range n.Outputs {
				if v != graph.NoValue {
					needed[v] = live.Persistent(g, v) || s.kept(v)
				}
			}
			for _, v := range operands(n) {
				use(v)
			}
			step := object{"compute": s.labels[e.node]}
			if e.seed != "" {
				step["seed"] = e.seed
			}
			steps = append(steps, step)
			continue
		}
		switch e.verb {
		case "free":
			needed[e.of] = true
		case "offload":
			use(e.of)
		case "reload":
			use(e.of)
			needed[e.of] = true // the plan says where it is freed before
		}
		steps = append(steps, object{e.verb: g.ValueName(e.of)})
	}
	slices.Reverse(steps)
	var instance, answer bytes.Buffer
	// The format comes first, where memopt solve wants it.
	fmt.Fprint(&instance, `{"format":"memopt-instance",`)
	text, err := json.Marshal(object{"version": 2, "cost_unit": "us", "order": "given", "nodes": nodes})
	if err != nil {
		return nil, err
	}
	instance.Write(text[1:])
	if text, err = json.Marshal(s.answer(steps)); err != nil {
		return nil, err
	}
	answer.Write(text)
	return &Schedule{instance.Bytes(), answer.Bytes()}, nil
}

// node is a node of the instance. Values that may lie in others have no bytes, so that the bound holds for plans where
// they do, unless they move.
func (s *scheduler) node(id graph.NodeID) object {
	g := s.old.Graph
	n := g.Nodes[id]
	out := object{"id": s.labels[id], "cost": s.micros[id]}
	inputs := []string{}
	for _, v := range operands(n) {
		if !live.Persistent(g, v) {
			inputs = append(inputs, g.ValueName(v))
		}
	}
	out["inputs"] = inputs
	view := s.view(n)
	if view {
		out["alias"] = g.ValueName(n.Input(0))
	} else if op.Of(n.Kind).Class == op.Never {
		out["recompute"] = false
	}
	outputs := []object{}
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		o := object{"id": g.ValueName(v), "size": s.bytes(v)}
		if s.kept(v) {
			o["keep"] = true
		}
		outputs = append(outputs, o)
	}
	out["outputs"] = outputs
	return out
}

// bytes is the size of a value of the instance.
func (s *scheduler) bytes(v graph.ValueID) int64 {
	switch {
	case live.Persistent(s.old.Graph, v), s.base[v] != v,
		s.timeline.State != nil && s.timeline.State[v] != graph.NoValue:
		return 0
	case s.moved[v] == 0 && s.part(v):
		return 0
	}
	return max(0, s.sizes.Bytes[v])
}

// part tells whether a value may be a part of another.
func (s *scheduler) part(v graph.ValueID) bool {
	if s.sizes.Slices == nil {
		return false
	}
	for id, n := range s.old.Graph.Nodes {
		parts := s.sizes.Slices[id]
		if parts == nil {
			continue
		}
		list := n.Outputs
		if parts.Join {
			list = n.Inputs
		}
		for slot, at := range parts.At {
			if at >= 0 && list[slot] != graph.NoValue && s.root(list[slot]) == v {
				return true
			}
		}
	}
	return false
}

// root is the value whose memory a value shows.
func (s *scheduler) root(v graph.ValueID) graph.ValueID {
	for s.base[v] != v {
		v = s.base[v]
	}
	return v
}

// kept tells whether the first execution of a value's node makes an output of the graph: one that shows another value
// may show it as it is made again.
func (s *scheduler) kept(v graph.ValueID) bool {
	return s.base[v] == v && slices.ContainsFunc(s.old.Graph.Outputs, func(d graph.Decl) bool { return d.Value == v })
}

// answer has the steps, and those claims of the plan that follow from them and from the times of nodes.
func (s *scheduler) answer(steps []object) object {
	r := s.record
	base := 0.0
	for _, x := range s.micros {
		base += x
	}
	a := object{"steps": steps, "base_cost": base, "makespan": r.Makespan - s.constant, "in_order": true,
		"host_peak": r.HostPeak, "host_budget": r.HostBudget, "moved_bytes": r.MovedBytes,
		"link": object{"bytes_per_second": r.Link.BytesPerSecond, "latency_us": r.Link.LatencyMicros}}
	if r.Link.BytesPerSecond == 0 && len(r.Moves) == 0 {
		delete(a, "link")
	}
	if b := s.lower(); b.Lower != nil {
		a["cost_lower_bound"] = r.Base*(1+*b.Lower) - s.constant
		a["optimal"] = b.Optimal
	}
	if c := r.Certificate; c != nil {
		a["certificate"] = object{"moment": c.Moment, "price": c.Price, "order": c.Order, "bound": c.Bound,
			"budget_bytes": c.BudgetBytes + s.slack(c.Moment)}
	}
	return a
}

// slack is how many bytes less than the instance says a moment may take: those of an output that may be written
// into an input, and of the values that move though they may be parts of others.
func (s *scheduler) slack(moment string) (bytes int64) {
	for v := range s.moved {
		if s.part(v) {
			bytes += max(0, s.sizes.Bytes[v])
		}
	}
	at := slices.Index(s.labels, moment)
	if at < 0 {
		return bytes
	}
	if n := s.old.Graph.Nodes[at]; len(s.sizes.InPlace(n)) > 0 && n.Output(0) != graph.NoValue {
		bytes += max(0, s.sizes.Bytes[n.Output(0)])
	}
	return bytes
}

// moves holds a plan's moves and times to its graph: as a schedule, and as the graph that is made of it.
func (c *checker) moves() error {
	m := c.record.MovedRecord
	if !slices.Equal(m.Streams, recompute.Streams) {
		c.fault("unknown", -1, "", "the streams are %q: wanted %q", m.Streams, recompute.Streams)
	}
	if err := recompute.CheckSeeds(c.new, m.Seeds); err != nil {
		c.fault("other-seed", -1, "", "%v", err)
	}
	if c.times(); len(c.report.Faults) > 0 {
		return nil
	}
	s, err := c.schedule()
	if err != nil || s == nil {
		return err
	}
	c.asSchedule = s
	r, err := check.Answer(bytes.NewReader(s.Steps), bytes.NewReader(s.Instance))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOther, err)
	}
	c.report.Faults = append(c.report.Faults, r.Faults...)
	c.report.Steps, c.report.Cost, c.report.HostPeak = r.Steps, r.Cost+c.constant, r.HostPeak
	c.report.Makespan = r.Makespan + c.constant
	if over := (c.report.Makespan - m.Base) / m.Base; m.Base > 0 && !near(1+over, 1) {
		c.report.Overhead = over
	}
	if p := r.BoundProved; p != nil && m.Base > 0 {
		proved := (sum(c.micros)*(1+*p) + c.constant - m.Base) / m.Base
		c.report.BoundProved = &proved
	}
	if slices.Contains(r.Proved, "copies") {
		c.report.Proved = append(c.report.Proved, "copies")
	}
	c.boundProved = slices.Contains(r.Proved, "bound")
	if len(c.report.Faults) > 0 {
		return nil
	}
	order := graph.FileOrder(c.new)
	list, err := recompute.ResolveMoves(c.new, m.Moves)
	if err == nil {
		var moved *recompute.Moved
		if moved, err = recompute.MoveValues(c.rewritten, order, list); err == nil {
			c.final = moved.Model
			return nil
		}
	}
	c.fault("not-made", -1, "", "%v", err)
	return nil
}

func sum(list []float64) (total float64) {
	for _, x := range list {
		total += x
	}
	return total
}

// times holds the times of the step as it is to those of nodes.
func (c *checker) times() {
	m := c.record.MovedRecord
	if len(m.NodeMicros) != len(c.old.Graph.Nodes) || c.parts != nil && len(m.WholeMicros) != len(c.whole.Graph.Nodes) {
		c.fault("wrong-cost", -1, "", "times of %d and %d nodes: wanted one for each node of the graph, and of the "+
			"graph in parts", len(m.NodeMicros), len(m.WholeMicros))
		return
	}
	c.micros, c.constant = m.NodeMicros, 0
	base := sum(c.micros)
	if c.parts != nil {
		base = sum(m.WholeMicros)
		there := make([]bool, len(m.WholeMicros))
		for _, id := range c.parts.Origin {
			if id != graph.NoNode {
				there[id] = true
			}
		}
		for id, t := range m.WholeMicros {
			if !there[id] { // a constant, now that sizes are known
				c.constant += t
			}
		}
	}
	for _, list := range [][]float64{m.NodeMicros, m.WholeMicros} {
		for _, t := range list {
			if !(t >= 0) {
				c.fault("wrong-cost", -1, "", "a node takes %g us", t)
				return
			}
		}
	}
	if !near(m.Base, base) {
		c.fault("wrong-base-cost", -1, "", "the time of every node once is %.15g us, and the plan says %.15g", base,
			m.Base)
	}
	if over := c.record.Recompute; over != nil && m.Base > 0 && !near(1+over.Overhead, m.Makespan/m.Base) {
		c.fault("wrong-overhead", -1, "", "a step takes %.9g of the time of the graph as it is, and the plan says %.9g",
			m.Makespan/m.Base, 1+over.Overhead)
	}
}

// near tells whether two numbers are equal but for rounding.
func near(a, b float64) bool { return a-b <= 1e-10*b && b-a <= 1e-10*b }
