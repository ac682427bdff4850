package graph

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// Order is a sequence of all nodes of a graph, every producer before its readers (a topological
// order).
type Order []NodeID

// FileOrder returns the order of the file, which may not pass Check.
func FileOrder(g *Graph) Order {
	o := make(Order, len(g.Nodes))
	for i := range o {
		o[i] = NodeID(i)
	}
	return o
}

// Positions returns the inverse of the order: the place of every node.
func (o Order) Positions() []int32 {
	pos := make([]int32, len(o))
	for i, id := range o {
		pos[id] = int32(i)
	}
	return pos
}

// Check reports why o is no order of g: a node missing, listed twice, or
// placed before one of its producers.
func (o Order) Check(g *Graph) error {
	if len(o) != len(g.Nodes) {
		return fmt.Errorf("graph %q: the order lists %d nodes, the graph has %d", g.Name, len(o), len(g.Nodes))
	}
	seen := make([]bool, len(g.Nodes))
	for _, id := range o {
		if id < 0 || int(id) >= len(seen) || seen[id] {
			return fmt.Errorf("graph %q: node %d is listed twice or does not exist", g.Name, id)
		}
		if late := g.unmetProducer(id, seen); late != NoNode {
			return fmt.Errorf("graph %q: node %q stands before its producer %q",
				g.Name, g.NodeLabel(id), g.NodeLabel(late))
		}
		seen[id] = true
	}
	return nil
}

// unmetProducer returns a producer of the node that is not done yet.
func (g *Graph) unmetProducer(id NodeID, done []bool) NodeID {
	late := NoNode
	g.EachProducer(id, func(p NodeID) {
		if !done[p] {
			late = p
		}
	})
	return late
}

// EachProducer calls f for the producer of every value that the node or its
// subgraphs read, once per reading.
func (g *Graph) EachProducer(id NodeID, f func(NodeID)) {
	n := g.Nodes[id]
	for _, v := range n.Inputs {
		if v != NoValue && g.Values[v].Def != NoNode {
			f(g.Values[v].Def)
		}
	}
	for _, v := range n.Captures() {
		if g.Values[v].Def != NoNode {
			f(g.Values[v].Def)
		}
	}
}

// CycleError says that a graph has no order: the named nodes wait for each other.
type CycleError struct {
	Graph string
	Nodes []string // labels, each reading from the one before it, the first from the last
}

// Error names up to eight nodes of the cycle.
func (e *CycleError) Error() string {
	shown := e.Nodes
	more := ""
	if len(shown) > 8 {
		shown, more = shown[:8], fmt.Sprintf(" → … (%d nodes)", len(e.Nodes))
	}
	return fmt.Sprintf("graph %q: its nodes form a cycle: %s%s → %s", e.Graph, strings.Join(shown, " → "),
		more, e.Nodes[0])
}

// Topological returns the order that keeps to the file as far as dependencies
// allow: of the nodes whose producers are done, always the first in the file.
// A file that is in order is returned as it is. The error is a *CycleError.
func Topological(g *Graph) (Order, error) {
	o := FileOrder(g)
	if o.Check(g) == nil {
		return o, nil
	}
	waits := make([]int32, len(g.Nodes))
	for id := range g.Nodes {
		g.EachProducer(NodeID(id), func(NodeID) { waits[id]++ })
	}
	ready := &nodeHeap{}
	for id, w := range waits {
		if w == 0 {
			heap.Push(ready, NodeID(id))
		}
	}
	uses := NewUses(g)
	o = o[:0]
	for ready.Len() > 0 {
		id := heap.Pop(ready).(NodeID)
		o = append(o, id)
		for _, v := range g.Nodes[id].Outputs {
			if v == NoValue {
				continue
			}
			for _, u := range uses.Of(v) {
				if waits[u.Node]--; waits[u.Node] == 0 {
					heap.Push(ready, u.Node)
				}
			}
		}
	}
	if len(o) < len(g.Nodes) {
		return nil, g.findCycle(waits)
	}
	return o, nil
}

type nodeHeap []NodeID

func (h nodeHeap) Len() int           { return len(h) }
func (h nodeHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h nodeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nodeHeap) Push(x any)        { *h = append(*h, x.(NodeID)) }
func (h *nodeHeap) Pop() any {
	last := len(*h) - 1
	id := (*h)[last]
	*h = (*h)[:last]
	return id
}

// findCycle walks from a node that still waits to a producer that still waits
// until it meets a node again.
func (g *Graph) findCycle(waits []int32) *CycleError {
	at := NodeID(slices.IndexFunc(waits, func(w int32) bool { return w > 0 }))
	step := make([]int, len(g.Nodes)) // 1 + place on the walk
	var walk []NodeID
	for step[at] == 0 {
		walk = append(walk, at)
		step[at] = len(walk)
		next := NoNode
		g.EachProducer(at, func(p NodeID) {
			if next == NoNode && waits[p] > 0 {
				next = p
			}
		})
		at = next
	}
	cycle := walk[step[at]-1:]
	e := &CycleError{Graph: g.Name}
	for _, id := range slices.Backward(cycle) {
		e.Nodes = append(e.Nodes, g.NodeLabel(id))
	}
	return e
}
