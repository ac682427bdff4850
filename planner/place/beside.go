package place

import (
	"memopt/graph"
	"memopt/recompute"
)

// Beside adds the forced candidates to placements: before the first place that needs them, once more
// behind the peak step of the placements where that helps, and with inputs that are recomputed
// anyway or with the existing ones. It returns the variant with the lowest peak, then with the
// fewest clones. Without sizes it takes the first one.
func (b *Evaluator) Beside(placements []recompute.Placement) (*Trial, error) {
	r := newReruns(b, b.candidates(nil), placements)
	first := b.merged(placements, r, r.plan(nil, noLimit))
	if b.Sizes == nil {
		return &Trial{Placements: first}, nil
	}
	now, err := b.Simulate(placements)
	if err != nil {
		return nil, err
	}
	set := now.barriers(nil)
	split := b.merged(placements, r, r.plan(set, noLimit))
	var best []recompute.Placement
	peak, clones := int64(0), 0
	for _, way := range [][]recompute.Placement{first, split, b.sharing(first, placements),
		b.sharing(split, placements)} {
		t, err := b.Simulate(way)
		if err != nil {
			return nil, err
		}
		if best == nil || t.Peak < peak || t.Peak == peak && t.Clones < clones {
			best, peak, clones = way, t.Peak, t.Clones
		}
	}
	return b.Simulate(best)
}

// merged joins placements with those of a schedule, in order of execution.
func (b *Evaluator) merged(placements []recompute.Placement, r *reruns, s *schedule) []recompute.Placement {
	added := r.placements(s)
	r.explain(s, added)
	all := append(append(make([]recompute.Placement, 0, len(placements)+len(added)), placements...), added...)
	return recompute.InOrder(b.Analysis.Order, all)
}

// sharing removes from the added placements, except the forced entries, nodes that were recomputed
// before, and then all clones without readers.
func (b *Evaluator) sharing(all, given []recompute.Placement) []recompute.Placement {
	nodes := len(b.Analysis.Graph.Nodes)
	own, ran, forced := make([]bool, nodes), make([]bool, nodes), make([]bool, nodes)
	for i := range given {
		for _, id := range given[i].Nodes {
			own[id] = true
		}
	}
	for i := range b.Forced {
		forced[b.Forced[i].Entry] = true
	}
	out := make([]recompute.Placement, 0, len(all))
	for _, pl := range all {
		last := pl.Nodes[len(pl.Nodes)-1]
		if forced[last] {
			pl.Nodes = without(pl.Nodes, func(id graph.NodeID) bool { return own[id] && ran[id] && id != last })
		}
		for _, id := range pl.Nodes {
			ran[id] = true
		}
		out = append(out, pl)
	}
	return b.Trim(out)
}

// without returns the nodes that are not to be dropped.
func without(nodes []graph.NodeID, drop func(graph.NodeID) bool) (left []graph.NodeID) {
	for _, id := range nodes {
		if !drop(id) {
			left = append(left, id)
		}
	}
	return left
}

// Without removes the marked nodes from placements, and then all clones without readers. Readers of
// a removed clone read the newest clone before it, or the original.
func (b *Evaluator) Without(placements []recompute.Placement, marked []bool) []recompute.Placement {
	out, found := make([]recompute.Placement, 0, len(placements)), false
	for _, pl := range placements {
		left := without(pl.Nodes, func(id graph.NodeID) bool { return marked[id] })
		found = found || len(left) < len(pl.Nodes)
		if pl.Nodes = left; len(left) > 0 {
			out = append(out, pl)
		}
	}
	if !found {
		return placements
	}
	return b.Trim(out)
}

// Trim removes clones without readers from placements, which must be in order of execution.
func (b *Evaluator) Trim(placements []recompute.Placement) []recompute.Placement {
	a := b.Analysis
	g, wanted := a.Graph, make([]bool, len(a.Graph.Values))
	left := make([][]graph.NodeID, len(placements)) // by placement, from the last node to the first
	i := len(placements)
	for place := len(a.Order) - 1; place >= 0; place-- {
		id := a.Order[place]
		if a.Backward[id] {
			for _, v := range g.Nodes[id].Outputs {
				if v != graph.NoValue {
					wanted[v] = false // clones stand behind it
				}
			}
			want(wanted, g.Nodes[id])
		}
		for ; i > 0 && placements[i-1].Before == id; i-- {
			left[i-1] = needed(g, placements[i-1].Nodes, wanted)
		}
	}
	return regroup(g, placements, left)
}

func want(wanted []bool, n *graph.Node) {
	for _, v := range n.Inputs {
		if v != graph.NoValue {
			wanted[v] = true
		}
	}
}

// needed lists those of the nodes whose outputs are wanted, the last one first.
func needed(g *graph.Graph, nodes []graph.NodeID, wanted []bool) (left []graph.NodeID) {
	for k := len(nodes) - 1; k >= 0; k-- {
		n, used := g.Nodes[nodes[k]], false
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				used = used || wanted[v]
				wanted[v] = false
			}
		}
		if used {
			want(wanted, n)
			left = append(left, nodes[k])
		}
	}
	return left
}

// regroup makes placements of the nodes that are left of each, numbering copies anew.
func regroup(g *graph.Graph, placements []recompute.Placement, left [][]graph.NodeID) []recompute.Placement {
	copies := make([]int, len(g.Values))
	var out []recompute.Placement
	for i, pl := range placements {
		if len(left[i]) == 0 {
			continue
		}
		nodes := make([]graph.NodeID, len(left[i]))
		for k, id := range left[i] {
			nodes[len(nodes)-1-k] = id
		}
		if last := nodes[len(nodes)-1]; g.Values[pl.Value].Def != last {
			pl.Value = firstOutput(g.Nodes[last])
		}
		copies[pl.Value]++
		pl.Nodes, pl.Copy = nodes, copies[pl.Value]
		out = append(out, pl)
	}
	return out
}

func firstOutput(n *graph.Node) graph.ValueID {
	for _, v := range n.Outputs {
		if v != graph.NoValue {
			return v
		}
	}
	return graph.NoValue
}
