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
	out     *live.Program
	places  []int32
	newest  []graph.ValueID // by value of the graph; NoValue where there is no clone
	changed bool            // whether there is a clone at all
}

func newBuilder(g *graph.Graph, sizes *live.Sizes, base *live.Program) *builder {
	b := &builder{g: g, sizes: sizes, newest: make([]graph.ValueID, len(g.Values)),
		out: &live.Program{Steps: make([]live.Step, 0, len(base.Steps)+len(base.Steps)/4), Outputs: base.Outputs,
			Bytes: slices.Clone(base.Bytes), Persistent: slices.Clone(base.Persistent)},
		places: make([]int32, 0, len(base.Steps)+len(base.Steps)/4)}
	for i := range b.newest {
		b.newest[i] = graph.NoValue
	}
	return b
}

// keep appends a step of the original program.
func (b *builder) keep(s *live.Step, place int32, backward bool) {
	step := *s
	if backward && b.changed {
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
