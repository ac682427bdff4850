package fission

import (
	"container/heap"
	"slices"

	"memopt/graph"
)

// fewPerRow is how many elements for each row a value may have at most across which a region grows
// however small it is, where more of the region lies behind it.
const fewPerRow = 4

// between takes in what lies between nodes of the region and has a few numbers for each row, such as
// what a loss's gradient has at the label less 1. Otherwise all parts of what it is made of would have
// to be computed before the first part of what reads it, and either be kept or be made again.
func (g *growth) between() {
	if len(g.later) == 0 {
		return
	}
	inside, behind := g.ahead(), g.behind()
	for id := range inside {
		inside[id] = inside[id] && behind[id] && (g.allowed == nil || g.allowed[id])
	}
	if !slices.Contains(inside, true) {
		return
	}
	g.allowed, g.least = inside, 0
	for _, v := range g.later {
		heap.Push(&g.queue, v)
	}
	for g.queue.Len() > 0 {
		_ = g.around(heap.Pop(&g.queue).(reached).value) // what does not fall into the parts stays outside
	}
}

// few reports whether a value has a few elements for each row.
func (g *growth) few(v graph.ValueID) bool {
	if v == graph.NoValue || g.dims[v] == nil {
		return false
	}
	n := product(g.dims[v])
	return n >= g.rows && n <= fewPerRow*g.rows
}

// ahead marks the nodes outside of the region that read what it makes, across values of few elements
// for each row alone.
func (g *growth) ahead() []bool {
	found := make([]bool, len(g.g.Nodes))
	list := slices.Clone(g.nodes)
	for len(list) > 0 {
		id := list[len(list)-1]
		list = list[:len(list)-1]
		for _, v := range g.g.Nodes[id].Outputs {
			if !g.few(v) {
				continue
			}
			for _, r := range g.readers[v] {
				if !g.in[r] && !found[r] {
					found[r] = true
					list = append(list, r)
				}
			}
		}
	}
	return found
}

// behind marks the nodes outside of the region that make what it reads, across such values.
func (g *growth) behind() []bool {
	found := make([]bool, len(g.g.Nodes))
	list := slices.Clone(g.nodes)
	for len(list) > 0 {
		id := list[len(list)-1]
		list = list[:len(list)-1]
		for _, v := range g.g.Nodes[id].Inputs {
			if !g.few(v) {
				continue
			}
			if by := g.g.Values[v].Def; by != graph.NoNode && !g.in[by] && !found[by] {
				found[by] = true
				list = append(list, by)
			}
		}
	}
	return found
}
