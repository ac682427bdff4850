package recompute

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	ortsim "memopt/sim/ort"
)

// ByORTModule returns the graph that ORTModule's memory optimizer makes of selected candidates, in the order in which
// its session runs it, the memory-efficient one: a clone for each node, however many candidates have it, behind
// all nodes of the file; every reader of an entry behind the YieldOp, and every clone made so far, reads the entry's
// clone. The boundary must be a YieldOp. seed is that of Options. The error names a value that exists already.
func (a *Analysis) ByORTModule(selected []int, seed int64) (*Rewritten, error) {
	r := &rewriter{old: a.Graph, backward: a.Backward, out: &Rewritten{Model: a.Model.Clone()},
		opts: Options{Seed: seed}, copies: make([]int, len(a.Graph.Nodes)), guards: map[*graph.Node]bool{}}
	r.g, r.names, r.versions = r.out.Model.Graph, graph.NewNames(a.Model), a.Model.Opsets
	r.newest.Reset(len(a.Graph.Values))
	nodes := slices.Clone(r.g.Nodes)
	of := make([]*graph.Node, len(nodes)) // by node: its clone
	for _, i := range slices.Backward(slices.Sorted(slices.Values(selected))) {
		c := &a.Candidates[i]
		for _, id := range c.Nodes {
			if of[id] == nil {
				n, err := r.clone(id)
				if err != nil {
					return nil, fmt.Errorf("recomputation of %q: %w", a.Graph.NodeLabel(id), err)
				}
				of[id], nodes = n, append(nodes, n)
			}
		}
		for slot, v := range a.Graph.Nodes[c.Entry].Outputs {
			if v == graph.NoValue {
				continue
			}
			for at, n := range nodes {
				if at < len(a.Backward) && !a.Backward[at] || n == of[c.Entry] {
					continue
				}
				for k, in := range n.Inputs {
					if in == v {
						n.Inputs = slices.Clone(n.Inputs) // those of the original graph
						n.Inputs[k] = of[c.Entry].Outputs[slot]
					}
				}
			}
		}
	}
	origin := map[*graph.Node]graph.NodeID{}
	for id := range of {
		origin[nodes[id]] = graph.NodeID(id)
		if of[id] != nil {
			origin[of[id]] = graph.NodeID(id)
			r.out.Clones++
		}
	}
	numbered := make([]*graph.Node, 0, len(nodes))
	for _, id := range ortsim.SessionNumbers(a.Graph) {
		numbered = append(numbered, nodes[id])
	}
	copy(nodes, numbered)
	r.g.SetNodes(nodes)
	b, err := live.FindBoundary(r.out.Model)
	if err != nil {
		return nil, err
	}
	order := ortsim.MemoryEfficientOrder(r.g, b.Node)
	arranged := make([]*graph.Node, len(order))
	for i, id := range order {
		arranged[i] = r.g.Nodes[id]
		r.out.Origin = append(r.out.Origin, origin[arranged[i]])
	}
	r.g.SetNodes(arranged)
	r.out.Boundary, err = live.FindBoundary(r.out.Model)
	return r.out, err
}
