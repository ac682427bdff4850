package order

import (
	"container/heap"

	"memopt/graph"
)

// legal returns the allowed order that comes closest to a list of all nodes: of the nodes that are
// ready, always the first in the list.
func (c *constraints) legal(list graph.Order) graph.Order {
	rank := list.Positions()
	waits := make([]int32, len(list))
	forward := 0
	ready := &rankHeap{rank: rank}
	later := &rankHeap{rank: rank} // ready backward nodes, while forward ones are left
	for i := range waits {
		id := graph.NodeID(i)
		waits[i] = int32(len(c.pred.of(id)))
		if !c.backward[i] {
			forward++
		}
		if waits[i] == 0 {
			c.enqueue(id, forward, ready, later)
		}
	}
	out := make(graph.Order, 0, len(list))
	for {
		for forward == 0 && later.Len() > 0 {
			heap.Push(ready, heap.Pop(later))
		}
		if ready.Len() == 0 {
			return out
		}
		id := heap.Pop(ready).(graph.NodeID)
		out = append(out, id)
		if !c.backward[id] {
			forward--
		}
		for _, next := range c.succ.of(id) {
			if waits[next]--; waits[next] == 0 {
				c.enqueue(next, forward, ready, later)
			}
		}
	}
}

// enqueue puts a ready node into the queue of its half.
func (c *constraints) enqueue(id graph.NodeID, forward int, ready, later *rankHeap) {
	if c.backward[id] && forward > 0 {
		heap.Push(later, id)
	} else {
		heap.Push(ready, id)
	}
}

// rankHeap is a queue of nodes by their place in a list.
type rankHeap struct {
	rank  []int32
	nodes []graph.NodeID
}

func (h *rankHeap) Len() int           { return len(h.nodes) }
func (h *rankHeap) Less(i, j int) bool { return h.rank[h.nodes[i]] < h.rank[h.nodes[j]] }
func (h *rankHeap) Swap(i, j int)      { h.nodes[i], h.nodes[j] = h.nodes[j], h.nodes[i] }
func (h *rankHeap) Push(x any)         { h.nodes = append(h.nodes, x.(graph.NodeID)) }
func (h *rankHeap) Pop() any {
	last := len(h.nodes) - 1
	id := h.nodes[last]
	h.nodes = h.nodes[:last]
	return id
}
