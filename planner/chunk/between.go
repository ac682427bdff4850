package chunk

import (
	"container/heap"

	"memopt/graph"
)

// fewPerRow is how many elements for each row a value may have at most across which a region grows
// however small it is, where more of the region lies behind it.
const fewPerRow = 4

// between takes in nodes between those of the region that have a few numbers for each row, for example
// the gather of a loss's gradient at the label. Otherwise all parts of their operands would have to be
// computed before the first part of their readers, and either be kept or be recomputed.
func (g *growth) between() {
	if len(g.later) == 0 {
		return
	}
	g.stamp++
	inside := false
	g.spread(g.ahead, g.readersOf)
	g.spread(g.behind, func(id graph.NodeID) []graph.NodeID {
		inside = inside || g.ahead[id] == g.stamp
		return g.makersOf(id)
	})
	if !inside {
		return
	}
	g.inside, g.least = true, 0
	for _, v := range g.later {
		heap.Push(&g.queue, v)
	}
	for g.queue.Len() > 0 {
		_ = g.around(heap.Pop(&g.queue).(reached).value) // indivisible nodes stay outside
	}
}

// may reports whether a node may be in the region.
func (g *growth) may(id graph.NodeID) bool {
	if g.inside && (g.ahead[id] != g.stamp || g.behind[id] != g.stamp) {
		return false
	}
	return g.allowed == nil || g.allowed[id]
}

// few reports whether a value has a few elements for each row.
func (g *growth) few(v graph.ValueID) bool {
	if v == graph.NoValue || g.dims[v] == nil {
		return false
	}
	n := product(g.dims[v])
	return n >= g.rows && n <= fewPerRow*g.rows
}

// spread marks the nodes outside of the region that next reaches from its nodes.
func (g *growth) spread(mark []int32, next func(graph.NodeID) []graph.NodeID) {
	g.list = append(g.list[:0], g.nodes...)
	for len(g.list) > 0 {
		id := g.list[len(g.list)-1]
		g.list = g.list[:len(g.list)-1]
		for _, other := range next(id) {
			if g.grown++; g.in[other] == 0 && mark[other] != g.stamp {
				mark[other] = g.stamp
				g.list = append(g.list, other)
			}
		}
	}
}

// readersOf returns the readers of a node's outputs with a few elements for each row.
func (g *growth) readersOf(id graph.NodeID) []graph.NodeID {
	g.near = g.near[:0]
	for _, v := range g.g.Nodes[id].Outputs {
		if g.few(v) {
			g.near = append(g.near, g.readers[v]...)
		}
	}
	return g.near
}

// makersOf returns the producers of a node's operands with a few elements for each row.
func (g *growth) makersOf(id graph.NodeID) []graph.NodeID {
	g.near = g.near[:0]
	for _, v := range g.g.Nodes[id].Inputs {
		if g.few(v) && g.g.Values[v].Def != graph.NoNode {
			g.near = append(g.near, g.g.Values[v].Def)
		}
	}
	return g.near
}
