package order

import (
	"slices"

	"memopt/graph"
)

// listRule is a way to choose among the nodes that are ready.
type listRule struct {
	reverse bool // build the order from its end
	ahead   int  // how many nodes a choice looks ahead
	recent  bool // of equals, take the node that became ready last; else the first in the start order
}

// listRules are the ways that are tried. No rule is best for all graphs.
var listRules = []listRule{
	{ahead: 1}, {ahead: 1, reverse: true},
	{ahead: 1, recent: true}, {ahead: 1, reverse: true, recent: true},
	{ahead: 12}, {ahead: 12, reverse: true},
	{ahead: 12, recent: true}, {ahead: 12, reverse: true, recent: true},
}

// readyWindow bounds the ready nodes that a choice compares: the first and the last so many that
// became ready.
const readyWindow = 48

// construct tries a given list of nodes and the orders of list scheduling.
func (s *search) construct(list graph.Order) {
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

// sunk moves every node of an order as close as possible before its first reader, if that keeps
// fewer bytes alive: if its outputs are larger than the operands that it is the last to read.
func (s *search) sunk(order graph.Order) graph.Order {
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
