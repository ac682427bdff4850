package planner

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
)

// builder makes the program of a rewritten graph without writing the graph, by the
// same rule as recompute.Apply: backward steps and clones read the newest clone.
type builder struct {
	g       *graph.Graph
	sizes   *live.Sizes
	out     live.Program
	places  []int32         // by step: the place in the old order that it stands at
	newest  []graph.ValueID // by value of the graph; NoValue where there is no clone
	changed bool            // whether there is a clone at all
	price   int64           // hidden bytes of every clone
}

// reset starts the program of another plan, with so many clones, in the same memory.
func (b *builder) reset(base *live.Program, clones int) {
	b.out.Steps, b.places = slices.Grow(b.out.Steps[:0], len(base.Steps)+clones), slices.Grow(b.places[:0], len(base.Steps)+clones)
	b.out.Outputs, b.out.Hidden = base.Outputs, base.Hidden
	b.out.Bytes = append(slices.Grow(b.out.Bytes[:0], len(base.Bytes)+clones), base.Bytes...)
	b.out.Persistent = append(slices.Grow(b.out.Persistent[:0], len(base.Bytes)+clones), base.Persistent...)
	if b.newest == nil {
		b.newest = make([]graph.ValueID, len(b.g.Values))
	}
	for i := range b.newest {
		b.newest[i] = graph.NoValue
	}
	b.changed = false
}

// keep appends a step of the original program.
func (b *builder) keep(s *live.Step, place int32, backward bool) {
	step := *s
	switch {
	case !b.changed:
	case b.sizes.Aliased != nil:
		// A schedule of runs has one version of each value, which all later readers read.
		step.In = b.rewire(step.In, len(step.In))
	case backward:
		// Captured values, which follow the inputs, keep their originals.
		step.In = b.rewire(step.In, len(b.g.Nodes[step.Node].Inputs))
	}
	b.out.Steps = append(b.out.Steps, step)
	b.places = append(b.places, place)
}

// rewire replaces the first n operands by their newest clones. It copies the list only if
// something changes.
func (b *builder) rewire(in []graph.ValueID, n int) []graph.ValueID {
	shared := true
	for i, v := range in[:n] {
		if v == graph.NoValue || b.newest[v] == graph.NoValue {
			continue
		}
		if shared {
			in, shared = slices.Clone(in), false
		}
		in[i] = b.newest[v]
	}
	return in
}

// clone appends a second execution of a node.
func (b *builder) clone(id graph.NodeID, place int32) {
	b.changed = true
	step := live.NewStep(b.g, id, b.sizes)
	if step.Memory == live.Aliasing {
		step.Memory = live.Owning // the runtime aliases what it was asked about; a clone is another node
	}
	b.out.Hidden += b.price
	step.In = b.rewire(step.In, len(step.In))
	step.Out = slices.Clone(step.Out)
	for i, v := range step.Out {
		if v == graph.NoValue {
			continue
		}
		step.Out[i] = graph.ValueID(len(b.out.Bytes))
		b.out.Bytes = append(b.out.Bytes, b.sizes.Bytes[v])
		b.out.Persistent = append(b.out.Persistent, false)
	}
	for i, v := range b.g.Nodes[id].Outputs {
		if v != graph.NoValue {
			b.newest[v] = step.Out[i]
		}
	}
	b.out.Steps = append(b.out.Steps, step)
	b.places = append(b.places, place)
}

// withWorkspace adds what kernels need besides their operands, in the order of the steps: as
// executors do it, so that both pack alike.
func withWorkspace(p *live.Program, workspace []int64) {
	for i := range p.Steps {
		if n := workspace[p.Steps[i].Node]; n > 0 {
			p.AddWorkspace(i, n)
		}
	}
}
