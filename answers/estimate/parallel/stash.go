package parallel

import (
	"slices"

	"memopt"
	"memopt/graph"
	"memopt/graph/op"
)

// usage is the memory of a chunk's plan.
func (c *chunk) usage(p *memopt.Plan) Usage {
	return Usage{Stash: c.stash(p), Peak: p.Arena.Bytes, parts: p.After.Peak.Parts}
}

// persistent lists a chunk's inputs and adds up its constants; parameters and sums are neither.
func (c *chunk) persistent(p *memopt.Plan, param []bool) {
	g := c.model.Graph
	state := make([]bool, len(g.Values))
	for _, s := range p.Sizes.States {
		state[s.In] = true
	}
	for v := range g.Values {
		val := &g.Values[v]
		switch {
		case param[v] || state[v]:
		case val.Input:
			c.inputs = append(c.inputs, graph.ValueID(v))
		case val.IsInitializer():
			c.constants += max(p.Sizes.Bytes[v], 0)
		}
	}
}

// stash is the bytes of a micro-batch between its halves: the values of the arena that live across
// the boundary, and the inputs that the backward half reads again.
func (c *chunk) stash(p *memopt.Plan) (bytes int64) {
	last := int32(-1)
	for i, r := range p.Sequence() {
		if !p.Analysis.Backward[r.Node] && !r.Again {
			last = int32(i)
		}
	}
	t := p.Planned
	for v, root := range t.Root {
		if root != graph.ValueID(v) || v >= len(p.Sizes.Bytes) {
			continue // a view, or made by a clone
		}
		if r := t.Ranges[v]; r.Start <= last && r.End > last+1 {
			bytes += max(p.Sizes.Bytes[v], 0)
		}
	}
	for _, v := range c.inputs {
		if !slices.Contains(c.gradient, v) && readBehind(p.Analysis.Graph, v, p.Analysis.Backward) {
			bytes += max(p.Sizes.Bytes[v], 0)
		}
	}
	return bytes
}

// readBehind reports whether a backward node reads a value or a view of it.
func readBehind(g *graph.Graph, v graph.ValueID, backward []bool) bool {
	for _, n := range g.Nodes {
		if !slices.Contains(n.Inputs, v) {
			continue
		}
		if backward[n.ID] {
			return true
		}
		if op.Of(n.Kind).View && n.Inputs[0] == v && readBehind(g, n.Output(0), backward) {
			return true
		}
	}
	return false
}
