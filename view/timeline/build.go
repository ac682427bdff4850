package timeline

import (
	"context"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner"
	"memopt/planner/arena"
	"memopt/planner/place"
	"memopt/recompute"
	"memopt/symbolic"
)

// Of returns the step of a plan. The error is a *symbolic.UnboundError if sizes are unknown, or the
// simulator's.
func Of(p *planner.Plan) (*Timeline, error) {
	b, err := newBuilder(p)
	if err != nil {
		return nil, err
	}
	program, err := b.bench.Program(p.Placements)
	if err != nil {
		return nil, err
	}
	return b.build(program.Clone(), p.Planned, p.Arena), nil
}

// Baseline returns the step of the original graph, in the plan's order. It has a layout only
// where the plan has one of it: Pack makes it. Errors are those of Of.
func Baseline(p *planner.Plan) (*Timeline, error) {
	if p.Whole != nil {
		return Of(p.Whole)
	}
	if len(p.Placements) == 0 {
		return Of(p)
	}
	b, err := newBuilder(p)
	if err != nil {
		return nil, err
	}
	return b.build(b.bench.AsIs(), p.Base, nil), nil
}

// Pack gives the timeline a layout, if it has none. A context that is done ends the search for a
// smaller one.
func (t *Timeline) Pack(ctx context.Context) {
	if t.Layout == nil {
		t.place(arena.NewLayout(ctx, t.Simulated, t.program.Bytes))
	}
}

// place gives buffers the offsets of a layout.
func (t *Timeline) place(l *arena.Layout) {
	t.Layout = l
	for i, root := range t.roots {
		t.Buffers[i].Offset = l.Offsets[root]
	}
}

// builder makes timelines of a plan.
type builder struct {
	p       *planner.Plan
	g       *graph.Graph
	bench   *place.Evaluator
	roles   *live.Roles
	t       *Timeline
	program *live.Program
	history *live.History
	origin  []graph.ValueID // by value of the program: the value of the graph that it is or repeats
	copies  []int32         // by value of the program: the number of the clone that makes it, or 0
	made    []int32         // by value of the program: the step that makes it; -1
	reader  []int32         // by value of the program that shows no other: the last step that reads it; -1
	buffer  []int32         // by root: its buffer
	moved   []bool          // by value of the graph: it goes to the host, or comes back
}

func newBuilder(p *planner.Plan) (*builder, error) {
	if p.Sizes == nil {
		return nil, &symbolic.UnboundError{Symbols: p.Unbound}
	}
	a := p.Analysis
	return &builder{p: p, g: a.Graph,
		bench: place.NewEvaluator(a, p.Sizes,
			place.Memory{Workspace: p.Options.Workspace, CloneBytes: p.Options.CloneBytes}),
		roles: live.FindRoles(a.Graph, p.Sizes.States, a.Backward, a.Order)}, nil
}

func (b *builder) build(program *live.Program, simulated *live.Timeline, layout *arena.Layout) *Timeline {
	b.program = program
	b.t = &Timeline{Graph: b.g, Simulated: simulated, Peak: simulated.Peak.Step, program: program}
	b.history = live.Spans(b.g, program, simulated, b.roles, b.p.Analysis.Backward)
	b.steps()
	b.trackCopies()
	b.reads()
	b.buffers()
	b.blocks()
	b.sum()
	b.always()
	if layout != nil {
		b.t.place(layout)
	}
	return b.t
}

// steps fills in the node of each step, and its outputs.
func (b *builder) steps() {
	n := len(b.program.Bytes)
	b.origin, b.copies, b.made = make([]graph.ValueID, n), make([]int32, n), make([]int32, n)
	for v := range b.origin {
		if b.made[v], b.origin[v] = -1, graph.NoValue; v < len(b.g.Values) {
			b.origin[v] = graph.ValueID(v)
		}
	}
	seconds := b.p.NodeSeconds()
	runs := make([]int32, len(b.g.Nodes))
	first, times := map[graph.NodeID]int32{}, map[graph.NodeID]int32{} // by original
	steps, now := make([]Step, len(b.program.Steps)), 0.0
	for i := range b.program.Steps {
		s := &b.program.Steps[i]
		label := b.g.NodeLabel(s.Node)
		steps[i] = Step{Node: s.Node, Name: b.name(s.Node, int(runs[s.Node])), Op: b.g.Nodes[s.Node].Op,
			Layer: graph.LayerOf(label), Phase: b.history.Phases[i], Repeats: -1,
			Seconds: seconds[s.Node], Start: now}
		steps[i].Region, steps[i].Part = b.p.PartOf(s.Node)
		now += seconds[s.Node]
		if of := b.original(s.Node); of != graph.NoNode {
			if times[of] == 0 {
				first[of] = int32(i)
			} else {
				steps[i].Repeats, steps[i].Copy = first[of], times[of]
			}
			times[of]++
		}
		b.makes(int32(i), runs[s.Node])
		runs[s.Node]++
	}
	b.t.Steps = steps
}

// original is the node that a node of the graph runs: itself, unless the graph has clones; NoNode for one that copies.
func (b *builder) original(id graph.NodeID) graph.NodeID {
	if origin := b.p.Options.Origin; origin != nil {
		return origin[id]
	}
	return id
}

// name names a run of a node as a rewritten graph does.
func (b *builder) name(id graph.NodeID, copy int) string {
	if n := b.g.Nodes[id]; copy > 0 && n.Name == "" {
		return recompute.CloneName(b.g.ValueName(n.Output(0)), copy)
	}
	return recompute.CloneName(b.g.NodeLabel(id), copy)
}

// makes notes the values that a step makes, as the clone of that number.
func (b *builder) makes(at, copy int32) {
	s := &b.program.Steps[at]
	outputs := b.g.Nodes[s.Node].Outputs
	for slot, v := range s.Out {
		if v == graph.NoValue {
			continue
		}
		b.made[v] = at
		if slot < len(outputs) && outputs[slot] != graph.NoValue {
			b.origin[v], b.copies[v] = outputs[slot], copy
		}
	}
}

// reads finds the last readers of values, or of views of them.
func (b *builder) reads() {
	b.reader = make([]int32, len(b.program.Bytes))
	for v := range b.reader {
		b.reader[v] = -1
	}
	source := b.history.Source
	for i := range b.program.Steps {
		s := &b.program.Steps[i]
		for _, v := range s.In {
			if v == graph.NoValue || s.Output0() != graph.NoValue && source[s.Output0()] == source[v] {
				continue // a view does not read its bytes
			}
			b.reader[source[v]] = int32(i)
		}
	}
}

// buffers lists the buffers, in the order of their values.
func (b *builder) buffers() {
	t := b.t
	b.buffer = make([]int32, len(b.program.Bytes))
	for v, root := range t.Simulated.Root {
		if b.buffer[v] = -1; root != graph.ValueID(v) || b.program.Bytes[v] <= 0 {
			continue
		}
		b.buffer[v] = int32(len(t.Buffers))
		r := t.Simulated.Ranges[v]
		t.roots = append(t.roots, root)
		t.Buffers = append(t.Buffers, Buffer{Value: b.origin[v], First: r.Start, Last: r.End - 1,
			Bytes: b.program.Bytes[v], Offset: -1})
	}
}

// always lists the values that live throughout.
func (b *builder) always() {
	t := b.t
	for i := range b.g.Values {
		v := graph.ValueID(i)
		n := b.p.Sizes.Bytes[v]
		if !live.CountsPersistent(b.g, v) || n <= 0 {
			continue
		}
		kind := Weights
		switch {
		case b.roles.State[v]:
			kind = State
		case b.roles.Gradient[v]:
			kind = Gradients
		}
		t.Persistent[kind] += n
		t.Always = append(t.Always, Block{Value: v, Name: b.g.ValueName(v), Kind: kind, Bytes: n,
			Last: int32(len(t.Steps)) - 1, Made: b.made[v], Reader: b.reader[v], Buffer: -1})
	}
}
