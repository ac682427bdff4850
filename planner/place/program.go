package place

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
)

// program makes the program of the rewritten graph, workspaces included. It is good until the next
// one.
func (b *Evaluator) program(placements []recompute.Placement) (*live.Program, error) {
	clones := 0
	for i := range placements {
		clones += len(placements[i].Nodes)
	}
	c := &b.clone
	c.reset(b, clones)
	if err := recompute.Emit(b.Analysis.Order, placements, c); err != nil {
		return nil, err
	}
	if b.Memory.Workspace != nil {
		addWorkspaces(&c.out, b.Memory.Workspace)
	}
	return &c.out, nil
}

// cloner is the sink of a rewrite that builds a program instead of a graph.
type cloner struct {
	g        *graph.Graph
	backward []bool // by node
	sizes    *live.Sizes
	out      live.Program
	places   []int32            // by step: the place in the old order that it stands at
	newest   recompute.Versions // of the graph's values
	price    int64              // hidden bytes of every clone
}

// reset starts the program of another set of placements, with so many clones, in the same memory.
func (c *cloner) reset(b *Evaluator, clones int) {
	base := b.base
	c.g, c.sizes, c.price = b.Analysis.Graph, b.Sizes, b.Memory.CloneBytes
	steps, values := len(b.Analysis.Order)+clones, len(base.Bytes)+clones
	c.out.Steps, c.places = slices.Grow(c.out.Steps[:0], steps), slices.Grow(c.places[:0], steps)
	c.out.Outputs, c.out.States, c.out.Hidden = base.Outputs, base.States, base.Hidden
	c.out.Bytes = append(slices.Grow(c.out.Bytes[:0], values), base.Bytes...)
	c.out.Persistent = append(slices.Grow(c.out.Persistent[:0], values), base.Persistent...)
	c.backward = b.Analysis.Backward
	c.newest.Reset(len(c.g.Values))
}

// Arrive is a no-op: programs with anchors are built in package anchor.
func (c *cloner) Arrive(graph.NodeID) error { return nil }

// Keep appends a step of the original program.
func (c *cloner) Keep(id graph.NodeID, place int32) {
	step := live.NewStep(c.g, id, c.sizes)
	switch {
	case c.sizes.Aliased != nil:
		// A schedule of runs has one version of each value, which all later readers read.
		step.In = c.newest.Rewire(step.In, len(step.In))
	case c.backward[id]:
		// Captured values, which follow the inputs, keep their originals.
		step.In = c.newest.Rewire(step.In, len(c.g.Nodes[id].Inputs))
	}
	c.out.Steps = append(c.out.Steps, step)
	c.places = append(c.places, place)
}

// Clone appends a second execution of a node.
func (c *cloner) Clone(id graph.NodeID, place int32, _ *recompute.Placement) error {
	step := live.NewStep(c.g, id, c.sizes)
	if step.Memory == live.Aliasing {
		// The runtime was asked about the original's aliasing; a clone is a different node.
		step.Memory = live.Owning
	}
	c.out.Hidden += c.price
	if step.Fails == op.FailsOnce {
		step.Fails = op.NeverFails // its inputs have been found right
	}
	step.In = c.newest.Rewire(step.In, len(step.In))
	step.Out = slices.Clone(step.Out)
	for i, v := range step.Out {
		if v == graph.NoValue {
			continue
		}
		step.Out[i] = graph.ValueID(len(c.out.Bytes))
		c.out.Bytes = append(c.out.Bytes, c.sizes.Bytes[v])
		c.out.Persistent = append(c.out.Persistent, false)
	}
	for i, v := range c.g.Nodes[id].Outputs {
		if v != graph.NoValue {
			c.newest.Set(v, step.Out[i])
		}
	}
	c.out.Steps = append(c.out.Steps, step)
	c.places = append(c.places, place)
	return nil
}

// addWorkspaces adds the workspaces of kernels in the order of the steps, as executors do, so that
// both pack alike.
func addWorkspaces(p *live.Program, workspace []int64) {
	for i := range p.Steps {
		if n := workspace[p.Steps[i].Node]; n > 0 {
			p.AddWorkspace(i, n)
		}
	}
}
