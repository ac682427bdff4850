package envelope

import (
	"cmp"
	"fmt"
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
}

// doubt is something on which a sample depends. It may be settled in all of a box; otherwise it
// returns a question whose answer changes there, or may change.
type doubt interface {
	open(box Box, fixed symbolic.Env) (question, bool)
	// bind binds symbols.
	bind(env symbolic.Env) doubt
}

func (q question) bind(env symbolic.Env) doubt { return question{q.of.Bind(env), q.equal} }

func (q question) open(box Box, fixed symbolic.Env) (question, bool) {
	bound := question{q.of.Bind(fixed), q.equal}
	return bound, !bound.settled(box)
}

// open returns a question that is not settled in a box.
func (s *Sample) open(box Box) (question, bool) {
	if box.point() {
		return question{}, false
	}
	fixed := box.fixed()
	for _, d := range s.doubts {
		if q, open := d.open(box, fixed); open {
			return q, true
		}
	}
	return question{}, false
}

// Ask notes that the sample depends on whether x ≤ y.
func (s *Sample) Ask(x, y symbolic.Expr) { s.doubts = append(s.doubts, question{of: y.Sub(x)}) }

// Bind binds symbols that are in no box: in loads and in what the sample depends on.
func (s *Sample) Bind(env symbolic.Env) {
	for i := range s.Loads {
		s.Loads[i].Bytes = s.Loads[i].Bytes.Bind(env)
	}
	for i, d := range s.doubts {
		s.doubts[i] = d.bind(env)
	}
}

// Simulate simulates a program of the sizes' graph, with the sizes that the graph has at the
// bindings, and notes what its memory depends on; what the program itself and its failures depend on
// is up to the caller (Ask). The errors are those of live.EvalSizes and of the simulator, and one
// that a sum is too large for an expression.
func (s *Sizes) Simulate(p *live.Program, sizes *live.Sizes, env symbolic.Env) (*Sample, error) {
	class, err := s.ofProgram(p)
	if err != nil {
		return nil, err
	}
	t, log, err := new(live.Simulator).Trace(p)
	if err != nil {
		return nil, err
	}
	out := &Sample{Program: p, Timeline: t}
	b := &builder{sizes: s, program: p, class: class, inner: map[graph.NodeID][]symbolic.Expr{}}
	for _, d := range s.dims { // live.EvalSizes refuses negative ones
		out.Ask(symbolic.Const(0), d)
	}
	if sizes.Aliased == nil {
		out.doubts = append(out.doubts, s.partDoubts(sizes, env)...)
	}
	for _, id := range sortedKeys(s.subs) {
		if err := b.simulateInside(out, id, env); err != nil {
			return nil, err
		}
	}
	out.doubts = append(out.doubts, b.sizeDoubts(log)...)
	if err := b.roundDoubts(out, log, env); err != nil {
		return nil, err
	}
	out.Loads, err = b.loads(t)
	return out, err
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
	inner   map[graph.NodeID][]symbolic.Expr // by node: of what lives inside, the largest counts
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
func (b *builder) sizeDoubts(log *live.Decisions) (list []doubt) {
	type pair struct{ x, y int32 }
	asked := map[pair]bool{}
	for _, p := range log.Same {
		x, y := b.class[p.A], b.class[p.B]
		if x == y || x == none || y == none || asked[pair{x, y}] {
			continue
		}
		asked[pair{x, y}] = true
		list = append(list, question{of: b.sizes.bytes[x].Sub(b.sizes.bytes[y]), equal: true})
	}
	signs := map[int32]bool{none: true}
	for _, v := range log.Positive {
		if c := b.class[v]; !signs[c] {
			signs[c] = true
			list = append(list, question{of: b.sizes.bytes[c].Sub(symbolic.Const(1))})
		}
	}
	return list
}

// loads sums what lives at every step.
func (b *builder) loads(t *live.Timeline) ([]Load, error) {
	begin, end := make([][]graph.ValueID, len(b.program.Steps)+1), make([][]graph.ValueID, len(b.program.Steps)+1)
	for i, root := range t.Root {
		if v := graph.ValueID(i); root == v {
			begin[t.Ranges[v].Start] = append(begin[t.Ranges[v].Start], v)
			end[t.Ranges[v].End] = append(end[t.Ranges[v].End], v)
		}
	}
	now := symbolic.Const(b.program.Hidden)
	var c collector
	for i := range b.program.Steps {
		for _, v := range begin[i] {
			now = now.Add(b.size(v))
		}
		for _, v := range end[i] {
			now = now.Sub(b.size(v))
		}
		node := b.program.Steps[i].Node
		inside := b.inner[node]
		if inside == nil {
			c.add(Load{now, i, node})
		}
		for _, e := range inside {
			c.add(Load{now.Add(e), i, node})
		}
	}
	return c.list, c.err
}

// collector collects distinct loads.
type collector struct {
	list  []Load
	known map[string]bool
	err   error
}

func (c *collector) add(l Load) {
	if c.known == nil {
		c.known = map[string]bool{}
	}
	if !l.Bytes.IsKnown() {
		c.err = cmp.Or(c.err, error(fmt.Errorf("the bytes live at step %d: %w", l.Step, l.Bytes.Err())))
		return
	}
	if text := l.Bytes.String(); !c.known[text] {
		c.known[text] = true
		c.list = append(c.list, l)
	}
}
