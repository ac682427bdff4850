package planner

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// orderBuffers is the memory model that list scheduling goes by: every value that is no view has a
// buffer, which lives from its maker to its last reader, those of views included. Sizes are by
// buffer, which is a value.
type orderBuffers struct {
	size    []int64
	pinned  []bool            // a graph output, directly or as a view
	makes   [][]graph.ValueID // by node: buffers that it makes
	reads   [][]graph.ValueID // by node: buffers that it reads or makes, each once
	readers []int32           // by buffer: the nodes that have it among reads
	maker   []graph.NodeID    // by buffer; NoNode for what is persistent
	inPlace [][]graph.ValueID // by node: buffers that its first output may take over
	stamp   []graph.NodeID    // by buffer: one past the last node that reads it, while they are gathered
}

func newOrderBuffers(g *graph.Graph, p *live.Program, order graph.Order) *orderBuffers {
	values, nodes := len(g.Values), len(g.Nodes)
	b := &orderBuffers{size: make([]int64, values), pinned: make([]bool, values), readers: make([]int32, values), maker: make([]graph.NodeID, values), stamp: make([]graph.NodeID, values),
		makes: make([][]graph.ValueID, nodes), reads: make([][]graph.ValueID, nodes), inPlace: make([][]graph.ValueID, nodes)}
	root := viewRoots(g, order)
	for v := range b.maker {
		b.maker[v] = graph.NoNode
		if !p.Persistent[root[v]] {
			b.size[v] = max(p.Bytes[root[v]], 0)
		}
	}
	for _, d := range g.Outputs {
		b.pinned[root[d.Value]] = true
	}
	for _, id := range order {
		b.node(g.Nodes[id], p, root)
	}
	b.stamp = nil
	return b
}

// node records what a node makes and reads.
func (b *orderBuffers) node(n *graph.Node, p *live.Program, root []graph.ValueID) {
	read := func(v graph.ValueID) {
		if r := root[v]; !p.Persistent[r] && b.stamp[r] != n.ID+1 {
			b.stamp[r] = n.ID + 1
			b.reads[n.ID] = append(b.reads[n.ID], r)
			b.readers[r]++
		}
	}
	eachRead(n, read)
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		if root[v] == v && !p.Persistent[v] {
			b.makes[n.ID] = append(b.makes[n.ID], v)
			b.maker[v] = n.ID
		}
		read(v)
	}
	out := n.Output(0)
	if out == graph.NoValue || root[out] != out || b.size[out] == 0 {
		return
	}
	for _, slot := range op.Of(n.Kind).InPlace {
		if v := n.Input(slot); v != graph.NoValue && !p.Persistent[root[v]] && !b.pinned[root[v]] && b.size[root[v]] == b.size[out] {
			b.inPlace[n.ID] = append(b.inPlace[n.ID], root[v])
		}
	}
}

// listRule is a way to choose among the nodes that are ready.
type listRule struct {
	reverse bool // build the order from its end
	ahead   int  // how many nodes a choice looks ahead
	recent  bool // of equals, take the node that became ready last; else the first in the start order
}

// listRules are the ways that are tried. None is best for all graphs.
var listRules = []listRule{
	{ahead: 1}, {ahead: 1, reverse: true},
	{ahead: 1, recent: true}, {ahead: 1, reverse: true, recent: true},
	{ahead: 12}, {ahead: 12, reverse: true},
	{ahead: 12, recent: true}, {ahead: 12, reverse: true, recent: true},
}

// readyWindow bounds the ready nodes that a choice compares: the first and the last so many that
// became ready.
const readyWindow = 48

// construct tries a given list of nodes and what list scheduling makes of the graph.
func (s *orderSearch) construct(list graph.Order) {
	s.try(s.c.legal(list))
	for _, rule := range listRules {
		if s.done() {
			return
		}
		l := newLister(s.c, s.buffers, rule)
		order := l.run(&s.work)
		s.try(order)
		s.try(s.c.legal(s.sunk(order)))
	}
}

// sunk moves every node of an order as close as possible before its first reader, where that keeps
// fewer bytes alive: where what it makes is larger than what it is the last to read.
func (s *orderSearch) sunk(order graph.Order) graph.Order {
	n := len(order)
	at := make([]int32, n) // by node: its new place, in halves: 2*place of the reader
	next := make([][]graph.NodeID, n+1)
	pos := order.Positions()
	for i := n - 1; i >= 0; i-- {
		id := order[i]
		first := int32(n)
		for _, succ := range s.c.succ.of(id) {
			first = min(first, at[succ])
		}
		at[id] = pos[id]
		if first < int32(n) && s.buffers.grows(id) {
			at[id] = max(first, pos[id])
		}
		next[at[id]] = append(next[at[id]], id)
	}
	out := make(graph.Order, 0, n)
	for _, group := range next {
		slices.Reverse(group)
		out = append(out, group...)
	}
	return out
}

// grows reports whether a node makes more bytes than all that it reads could free.
func (b *orderBuffers) grows(id graph.NodeID) bool {
	var bytes int64
	for _, v := range b.makes[id] {
		bytes += b.size[v]
	}
	for _, v := range b.reads[id] {
		if b.maker[v] != id && !b.pinned[v] && b.readers[v] == 1 {
			bytes -= b.size[v]
		}
	}
	return bytes >= 0
}
