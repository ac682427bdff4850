package place

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/recompute"
)

// program makes the program of the rewritten graph, workspaces included. It is good until the next
// one.
func (b *Bench) program(placements []recompute.Placement) *live.Program {
	clones := 0
	for i := range placements {
		clones += len(placements[i].Nodes)
	}
	c, a := &b.clone, b.Analysis
	c.reset(b, clones)
	rest := placements
	for place, id := range a.Order {
		for ; len(rest) > 0 && rest[0].Before == id; rest = rest[1:] {
			for _, again := range rest[0].Nodes {
				c.clone(again, int32(place))
			}
		}
		c.keep(&b.base.Steps[place], int32(place), a.Backward[id])
	}
	if b.Memory.Workspace != nil {
		addWorkspaces(&c.out, b.Memory.Workspace)
	}
	return &c.out
}

// cloner makes the program of a rewritten graph without writing the graph, by the
// same rule as recompute.Apply: backward steps and clones read the newest clone.
type cloner struct {
	g       *graph.Graph
	sizes   *live.Sizes
	out     live.Program
	places  []int32         // by step: the place in the old order that it stands at
	newest  []graph.ValueID // by value of the graph; NoValue where there is no clone
	changed bool            // whether there is a clone at all
	price   int64           // hidden bytes of every clone
}

// reset starts the program of another set of placements, with so many clones, in the same memory.
func (c *cloner) reset(b *Bench, clones int) {
	base := b.base
	c.g, c.sizes, c.price = b.Analysis.Graph, b.Sizes, b.Memory.CloneBytes
	steps, values := len(base.Steps)+clones, len(base.Bytes)+clones
	c.out.Steps, c.places = slices.Grow(c.out.Steps[:0], steps), slices.Grow(c.places[:0], steps)
	c.out.Outputs, c.out.Hidden = base.Outputs, base.Hidden
	c.out.Bytes = append(slices.Grow(c.out.Bytes[:0], values), base.Bytes...)
	c.out.Persistent = append(slices.Grow(c.out.Persistent[:0], values), base.Persistent...)
	if c.newest == nil {
		c.newest = make([]graph.ValueID, len(c.g.Values))
	}
	for i := range c.newest {
		c.newest[i] = graph.NoValue
	}
	c.changed = false
}

// keep appends a step of the original program.
func (c *cloner) keep(s *live.Step, place int32, backward bool) {
	step := *s
	switch {
	case !c.changed:
	case c.sizes.Aliased != nil:
		// A schedule of runs has one version of each value, which all later readers read.
		step.In = c.rewire(step.In, len(step.In))
	case backward:
		// Captured values, which follow the inputs, keep their originals.
		step.In = c.rewire(step.In, len(c.g.Nodes[step.Node].Inputs))
	}
	c.out.Steps = append(c.out.Steps, step)
	c.places = append(c.places, place)
}

// rewire replaces the first n operands by their newest clones. It copies the list only if
// something changes.
func (c *cloner) rewire(in []graph.ValueID, n int) []graph.ValueID {
	shared := true
	for i, v := range in[:n] {
		if v == graph.NoValue || c.newest[v] == graph.NoValue {
			continue
		}
		if shared {
			in, shared = slices.Clone(in), false
		}
		in[i] = c.newest[v]
	}
	return in
}

// clone appends a second execution of a node.
func (c *cloner) clone(id graph.NodeID, place int32) {
	c.changed = true
	step := live.NewStep(c.g, id, c.sizes)
	if step.Memory == live.Aliasing {
		step.Memory = live.Owning // the runtime aliases what it was asked about; a clone is another node
	}
	c.out.Hidden += c.price
	step.In = c.rewire(step.In, len(step.In))
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
			c.newest[v] = step.Out[i]
		}
	}
	c.out.Steps = append(c.out.Steps, step)
	c.places = append(c.places, place)
}

// addWorkspaces adds what kernels need besides their operands, in the order of the steps: as
// executors do it, so that both pack alike.
func addWorkspaces(p *live.Program, workspace []int64) {
	for i := range p.Steps {
		if n := workspace[p.Steps[i].Node]; n > 0 {
			p.AddWorkspace(i, n)
		}
	}
}
