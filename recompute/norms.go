package recompute

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// boundaryNorms finds the norms at which transformer layers begin: a norm whose input
// also feeds the residual addition that closes the block, and from which a
// softmax is reached before that addition. They come in order of execution.
func boundaryNorms(a *Analysis) []graph.NodeID {
	g, pos, uses := a.Graph, a.Order.Positions(), graph.NewUses(a.Graph)
	f := normFinder{a: a, pos: pos, uses: uses, visited: make([]int32, len(g.Nodes))}
	var out []graph.NodeID
	for _, id := range a.Order {
		if op.Of(g.Nodes[id].Kind).Has(op.Norm) && f.isBoundary(id) {
			out = append(out, id)
		}
	}
	return out
}

type normFinder struct {
	a       *Analysis
	pos     []int32
	uses    *graph.Uses
	visited []int32
	walks   int32
	work    int // nodes met by all walks
}

func (f *normFinder) isBoundary(norm graph.NodeID) bool {
	g := f.a.Graph
	in := g.Nodes[norm].Input(0)
	if in == graph.NoValue || !f.inForward(norm) {
		return false
	}
	// Of several additions the last to run is taken as the one that closes the block.
	add := graph.NoNode
	for _, u := range f.uses.Of(in) {
		if op.Of(g.Nodes[u.Node].Kind).Has(op.AddNode) && (add == graph.NoNode || f.pos[u.Node] > f.pos[add]) {
			add = u.Node
		}
	}
	return add != graph.NoNode && f.inForward(add) && f.reachesSoftmax(norm, f.pos[add])
}

// inForward reports whether a node runs strictly before the boundary node.
func (f *normFinder) inForward(id graph.NodeID) bool {
	return !f.a.Backward[id] && f.pos[id] < f.pos[f.a.Boundary.Node]
}

// reachesSoftmax walks downstream from a node through forward nodes that run
// before limit. Like the search for candidates it gives up after maxWork nodes in all.
func (f *normFinder) reachesSoftmax(from graph.NodeID, limit int32) bool {
	g := f.a.Graph
	if f.work > maxWork {
		return false
	}
	f.walks++
	queue := []graph.NodeID{from}
	f.visited[from] = f.walks
	for head := 0; head < len(queue); head++ {
		for _, v := range g.Nodes[queue[head]].Outputs {
			if v == graph.NoValue {
				continue
			}
			for _, u := range f.uses.Of(v) {
				if f.visited[u.Node] == f.walks || f.pos[u.Node] >= limit || !f.inForward(u.Node) {
					continue
				}
				if isAttention(g.Nodes[u.Node]) {
					return true
				}
				f.visited[u.Node] = f.walks
				f.work++
				queue = append(queue, u.Node)
			}
		}
	}
	return false
}

// isAttention reports whether a node is a softmax, or a fused attention that has one inside.
func isAttention(n *graph.Node) bool {
	info := op.Of(n.Kind)
	return info.Has(op.AttentionSoftmax) ||
		info.Has(op.PythonRole) && slices.Contains(op.FlashAttentionFunctions, n.Str("func_name", ""))
}
