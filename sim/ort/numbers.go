package ort

import (
	"slices"
	"strings"

	"memopt/graph"
)

// SessionNumbers lists the nodes of a graph that a session of ORTModule has written in its default order, as the
// session numbers them, which the memory-efficient order depends on.
//
// The session has numbered the nodes in the order of the graph that ORTModule gave it, and those that its fusions made
// behind them. The default order visits leaves from the highest number down: in the file, the leaves that it was given
// stand in reverse, behind those that fusions made. These are numbered in the order of the first visit, so that they
// stand in the file as the nodes that they replaced stood in ORTModule's graph. How both kinds lay between each other
// there is not in the file: here, the nearer to the inputs comes first. ORTModule has added the sums of gradients of
// tied weights last, and so wrote them first.
func SessionNumbers(g *graph.Graph) graph.Order {
	s := &scheduler{g: g, e: newEdges(g)}
	var given, made, order graph.Order
	for i, n := range g.Nodes {
		id := graph.NodeID(i)
		switch {
		case len(s.e.out(id)) > 0 || s.e.constant[id]:
			order = append(order, id)
		case fused(n) == 0:
			given = append(given, id)
		default:
			made = append(made, id)
		}
	}
	slices.Reverse(given)
	slices.SortStableFunc(made, func(a, b graph.NodeID) int { return summed(g.Nodes[b]) - summed(g.Nodes[a]) })
	dist := s.distances()
	nearer := func() bool { // the next leaf is one that a fusion has made
		return len(given) == 0 || len(made) > 0 && (summed(g.Nodes[made[0]]) == 1 || dist[made[0]] < dist[given[0]])
	}
	var leaves graph.Order
	for len(given)+len(made) > 0 {
		from := &given
		if nearer() {
			from = &made
		}
		leaves, *from = append(leaves, (*from)[0]), (*from)[1:]
	}
	slices.Reverse(leaves) // the walk visits the last leaf first
	order = defaultOrder(g, append(order, leaves...))
	slices.SortStableFunc(order, func(a, b graph.NodeID) int { return fused(g.Nodes[a]) - fused(g.Nodes[b]) })
	return order
}

// fused is 1 for a node that a fusion of the session has made, by its name, else 0.
func fused(n *graph.Node) int {
	if strings.Contains(n.Name, "Fusion") {
		return 1
	}
	return 0
}

// summed is 1 for the product that GemmSumFusion has made of a sum, else 0.
func summed(n *graph.Node) int {
	if strings.HasSuffix(n.Name, "GemmSumFusion/") {
		return 1
	}
	return 0
}
