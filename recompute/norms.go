package recompute

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
)

// layerStart is a norm at the beginning of a transformer layer: the node (if several nodes make up the
// norm, the last of them) and the value that it normalizes.
type layerStart struct {
	norm graph.NodeID
	of   graph.ValueID
}

// boundaryNorms finds the norms that begin transformer layers: the input of such a norm also feeds the
// residual addition that closes the block, and a path leads from the norm to a softmax before that addition.
// They come in order of execution. behind reports norms that stand behind such additions instead, where the
// next block reads their results.
func boundaryNorms(a *Analysis) (starts []layerStart, behind bool) {
	g, pos, uses := a.Graph, a.Order.Positions(), graph.NewUses(a.Graph)
	f := normFinder{a: a, pos: pos, uses: uses, visited: make([]int32, len(g.Nodes))}
	for _, id := range a.Order {
		in := f.normalized(id)
		switch {
		case in == graph.NoValue || !f.inForward(id):
		case f.isBoundary(id, in):
			starts = append(starts, layerStart{id, in})
		case f.isBoundary(id, g.Nodes[id].Output(0)):
			behind = true
		}
	}
	return starts, behind
}

// writtenNorms are the norms that exporters write out, by their last nodes.
var writtenNorms = func() (list []*pattern.Pattern) {
	for _, form := range []string{
		`Div(` + pattern.Centred + `, ` + pattern.Spread + `)`, `Mul(` + pattern.Centred + `, ` + pattern.Inverse + `)`,
		`Div(d, ` + pattern.Spread + `)`, `Mul(d, ` + pattern.Inverse + `)`,
	} {
		list = append(list, pattern.Parse(form))
	}
	return list
}()

// normalized returns the value that a node normalizes, alone or as the last of several; NoValue where it
// does not. ONNX Runtime makes one node of several before it looks for layers.
func (f *normFinder) normalized(id graph.NodeID) graph.ValueID {
	g := f.a.Graph
	n := g.Nodes[id]
	if op.Of(n.Kind).Has(op.Norm) {
		return n.Input(0)
	}
	for _, p := range writtenNorms {
		if p.Last() != n.Kind {
			continue
		}
		m := p.Find(g, n, func(v graph.ValueID) (float64, bool) { return pattern.Number(g, v) })
		if m != nil {
			return m.Input()
		}
	}
	return graph.NoValue
}

type normFinder struct {
	a       *Analysis
	pos     []int32
	uses    *graph.Uses
	visited []int32
	walks   int32
	work    int // nodes met by all walks
}

// isBoundary reports whether an addition closes the block that a norm begins; the value besides goes to
// both.
func (f *normFinder) isBoundary(norm graph.NodeID, besides graph.ValueID) bool {
	g := f.a.Graph
	if besides == graph.NoValue {
		return false
	}
	// If there are several additions, the last to run closes the block.
	add := graph.NoNode
	for _, u := range f.uses.Of(besides) {
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
