package envelope

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/symbolic"
)

// Sample is a simulation at one binding, in symbols.
type Sample struct {
	// Loads are the bytes that live at the steps, those of equal steps once.
	Loads    []Load
	Program  *live.Program
	Timeline *live.Timeline
	doubts   []doubt
	work     int // that it took to make it, in units of Work
}

// doubt is a condition of a sample. It may be settled in all of a region; otherwise it returns a
// question whose answer changes there, or may change.
type doubt interface {
	open(r *region) (question, bool)
	// bind binds symbols.
	bind(env symbolic.Env) doubt
}

func (q question) bind(env symbolic.Env) doubt { return question{q.of.Bind(env), q.equal} }

func (q question) open(r *region) (question, bool) {
	bound := question{q.of.Bind(r.fixed), q.equal}
	return bound, !bound.settled(r)
}

// open returns a question that is not settled in a region, and the place of its doubt. Those before
// from are known to be settled.
func (s *Sample) open(r *region, from int) (q question, at int, open bool) {
	if r.point() {
		return question{}, len(s.doubts), false
	}
	for at, d := range s.doubts[from:] {
		if q, open := d.open(r); open {
			return q, from + at, true
		}
	}
	return question{}, len(s.doubts), false
}

// Ask notes that the sample depends on whether x ≤ y.
func (s *Sample) Ask(x, y symbolic.Expr) { s.doubts = append(s.doubts, question{of: y.Sub(x)}) }

// Bind binds symbols that are in no box: in loads and in the sample's conditions.
func (s *Sample) Bind(env symbolic.Env) {
	for i := range s.Loads {
		s.Loads[i].Bytes = s.Loads[i].Bytes.Bind(env)
	}
	for i, d := range s.doubts {
		s.doubts[i] = d.bind(env)
	}
}

// Simulate simulates a program of the sizes' graph, with the sizes that the graph has at the bindings,
// and notes the conditions of its memory; those of the program itself and of its failures are up to the
// caller (Ask). The errors are those of live.EvalSizes and of the simulator, and one for a sum that is
// too large for an expression.
func (s *Sizes) Simulate(p *live.Program, sizes *live.Sizes, env symbolic.Env) (*Sample, error) {
	class, err := s.ofProgram(p)
	if err != nil {
		return nil, err
	}
	t, log, err := new(live.Simulator).Trace(p)
	if err != nil {
		return nil, err
	}
	out := &Sample{Program: p, Timeline: t, work: stepWork * len(p.Steps) * (1 + len(log.Rounds)/4)}
	b := &builder{sizes: s, program: p, class: class, inner: map[graph.NodeID][]symbolic.Expr{}}
	for _, d := range s.dims { // live.EvalSizes refuses negative ones
		out.Ask(symbolic.Const(0), d)
	}
	for _, id := range sortedKeys(s.subs) {
		if err := b.simulateInside(out, id, env); err != nil {
			return nil, err
		}
	}
	var partings []*parting
	if sizes.Aliased == nil {
		partings = s.partings(sizes, env)
	}
	return out, b.settle(out, log, partings, sizes, env)
}

// settle finds the loads of a sample and their conditions, besides those that are noted already.
//
// Parts of values may share memory in one way at nearly every size. The execution that copies all parts
// never peaks lower, and if no value that could share is live at its peak, no other execution does:
// then its peak is the peak, however the parts share.
func (b *builder) settle(out *Sample, log *live.Decisions, partings []*parting, sizes *live.Sizes,
	env symbolic.Env) (err error) {
	copied := out.Timeline
	if len(log.Rounds) > 0 {
		copied = log.Rounds[0]
	}
	f := b.families(copied, partings, sizes)
	for _, p := range partings {
		if p != nil && p.apart {
			out.doubts = append(out.doubts, p.doubts...)
		}
	}
	if !f.any {
		out.doubts = append(out.doubts, b.sizeDoubts(log.Same, log.Positive)...)
		out.Loads, err = b.loads(out.Timeline, highSteps)
		return err
	}
	if !f.cutStates {
		loads, err := b.loads(copied, highSteps)
		if err != nil {
			return err
		}
		c := covered{loads: loads, alone: f.alone(b.program, copied, loads)}
		if c.at(copied) {
			same, positive := log.Same, log.Positive
			if len(log.Rounds) > 0 {
				same, positive = same[:log.Copying.Same], positive[:log.Copying.Positive]
			}
			out.doubts = append(append(out.doubts, b.sizeDoubts(same, positive)...), c)
			out.Loads = loads
			return nil
		}
	}
	for _, p := range partings {
		if p != nil && !p.apart {
			out.doubts = append(out.doubts, p.doubts...)
			if log.Placed {
				out.doubts = append(out.doubts, p.places...)
			}
		}
	}
	out.doubts = append(out.doubts, b.sizeDoubts(log.Same, log.Positive)...)
	if err := b.roundDoubts(out, log, env); err != nil {
		return err
	}
	out.Loads, err = b.loads(out.Timeline, highSteps)
	return err
}

// Bound returns loads of a program whose maximum is at least the peak at every binding of a box: those
// of a simulation without parts where only values of equal expressions share memory. others binds the
// symbols that the box does not have.
func (s *Sizes) Bound(p *live.Program, box Box, others symbolic.Env) ([]Load, error) {
	class, err := s.ofProgram(p)
	if err != nil {
		return nil, err
	}
	fixed, env := box.fixed(), box.High()
	maps.Copy(fixed, others)
	maps.Copy(env, others)
	t, err := new(live.Simulator).SimulateApart(p, func(v, w graph.ValueID) bool {
		x, y := class[v], class[w]
		if x == none || y == none {
			return false
		}
		return x == y || s.bytes[x].Sub(s.bytes[y]).Bind(fixed).IsConst(0)
	})
	if err != nil {
		return nil, err
	}
	b := &builder{sizes: s, program: p, class: class, inner: map[graph.NodeID][]symbolic.Expr{}}
	for _, id := range sortedKeys(s.subs) {
		for _, sub := range s.subs[id] {
			inside, err := live.EvalSizes(sub.graph, env)
			if err != nil {
				return nil, err
			}
			order, err := graph.Topological(sub.graph)
			if err != nil {
				return nil, err
			}
			loads, err := sub.Bound(live.NewProgram(sub.graph, order, inside), box, others)
			if err != nil {
				return nil, err
			}
			for _, l := range loads {
				b.inner[id] = append(b.inner[id], l.Bytes)
			}
		}
	}
	return b.loads(t, highSteps)
}

func sortedKeys[V any](m map[graph.NodeID]V) []graph.NodeID {
	keys := make([]graph.NodeID, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// builder makes expressions of one simulation.
type builder struct {
	sizes   *Sizes
	program *live.Program
	class   []int32                          // by value of the program
	inner   map[graph.NodeID][]symbolic.Expr // the largest values inside a node, by node
}

// simulateInside simulates the subgraphs of a node.
func (b *builder) simulateInside(out *Sample, id graph.NodeID, env symbolic.Env) error {
	for _, sub := range b.sizes.subs[id] {
		sizes, err := live.EvalSizes(sub.graph, env)
		if err != nil {
			return err
		}
		order, err := graph.Topological(sub.graph)
		if err != nil {
			return err
		}
		s, err := sub.Simulate(live.NewProgram(sub.graph, order, sizes), sizes, env)
		if err != nil {
			return err
		}
		out.doubts = append(out.doubts, s.doubts...)
		for _, l := range s.Loads {
			b.inner[id] = append(b.inner[id], l.Bytes)
		}
	}
	return nil
}

// size is the bytes of a value.
func (b *builder) size(v graph.ValueID) symbolic.Expr {
	if b.class[v] == none {
		return symbolic.Const(0)
	}
	return b.sizes.bytes[b.class[v]]
}

// sizeDoubts are the questions that a simulator has noted, each once.
func (b *builder) sizeDoubts(same []live.Pair, positive []graph.ValueID) (list []doubt) {
	type pair struct{ x, y int32 }
	asked := map[pair]bool{}
	for _, p := range same {
		x, y := b.class[p.A], b.class[p.B]
		if x == y || x == none || y == none || asked[pair{x, y}] {
			continue
		}
		asked[pair{x, y}] = true
		list = append(list, question{of: b.sizes.bytes[x].Sub(b.sizes.bytes[y]), equal: true})
	}
	signs := map[int32]bool{none: true}
	for _, v := range positive {
		if c := b.class[v]; !signs[c] {
			signs[c] = true
			list = append(list, question{of: b.sizes.bytes[c].Sub(symbolic.Const(1))})
		}
	}
	return list
}

// Which steps loads are wanted of.
const (
	everyStep = false
	// highSteps are local maxima at every size: if no value dies between two steps, the first is no
	// higher, and if no value is made, the second.
	highSteps = true
)

// lives lists the roots of a timeline by the first and by the last step of their lives.
func lives(p *live.Program, t *live.Timeline) (begin, end [][]graph.ValueID) {
	begin, end = make([][]graph.ValueID, len(p.Steps)+1), make([][]graph.ValueID, len(p.Steps)+1)
	for i, root := range t.Root {
		if v := graph.ValueID(i); root == v {
			begin[t.Ranges[v].Start] = append(begin[t.Ranges[v].Start], v)
			end[t.Ranges[v].End] = append(end[t.Ranges[v].End], v)
		}
	}
	return begin, end
}

// loads sums the live bytes of steps.
func (b *builder) loads(t *live.Timeline, high bool) ([]Load, error) {
	begin, end := lives(b.program, t)
	now := symbolic.Const(b.program.Hidden)
	var c collector
	for i := range b.program.Steps {
		now = now.Add(b.change(begin[i], end[i]))
		node := b.program.Steps[i].Node
		inside := b.inner[node]
		if inside == nil {
			low := high && (i+1 < len(b.program.Steps) && len(end[i+1]) == 0 && len(begin[i+1]) > 0 ||
				i > 0 && len(begin[i]) == 0)
			if !low {
				c.add(Load{now, i, node}, t.Live[i])
			}
			continue
		}
		for _, e := range inside {
			c.add(Load{now.Add(e), i, node}, t.Live[i])
		}
	}
	return c.list, c.err
}

// change is the bytes of some values less those of others.
func (b *builder) change(begin, end []graph.ValueID) symbolic.Expr {
	switch {
	case len(begin) == 0 && len(end) == 0:
		return symbolic.Const(0)
	case len(begin) == 1 && len(end) == 0:
		return b.size(begin[0])
	}
	var sum symbolic.Expr
	for _, v := range begin {
		sum = sum.Add(b.size(v))
	}
	for _, v := range end {
		sum = sum.Sub(b.size(v))
	}
	return sum
}

// collector collects distinct loads.
type collector struct {
	list  []Load
	known map[int64][]int // by the bytes at one binding: their places in the list
	err   error
}

func (c *collector) add(l Load, bytes int64) {
	if c.known == nil {
		c.known = map[int64][]int{}
	}
	if !l.Bytes.IsKnown() {
		c.err = cmp.Or(c.err, error(fmt.Errorf("the bytes live at step %d: %w", l.Step, l.Bytes.Err())))
		return
	}
	for _, i := range c.known[bytes] {
		if c.list[i].Bytes.Identical(l.Bytes) {
			return
		}
	}
	c.known[bytes] = append(c.known[bytes], len(c.list))
	c.list = append(c.list, l)
}
