package ort

import (
	"cmp"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// MemoryEfficientOrder returns the order that ONNX Runtime calls memory-efficient (its
// graph_viewer.cc and graph.cc). yield is the graph's YieldOp; graph.NoNode means a depth-first
// walk from the leaves. Constant nodes, which ONNX Runtime turns into initializers, come first.
func MemoryEfficientOrder(g *graph.Graph, yield graph.NodeID) graph.Order {
	s := &scheduler{g: g, e: newEdges(g), placed: make([]bool, len(g.Nodes))}
	for i, c := range s.e.constant {
		if c {
			s.place(graph.NodeID(i))
		}
	}
	if yield == graph.NoNode {
		s.depthFirstFromLeaves()
	} else {
		s.forwardHalf(yield)
		s.backwardHalf(yield)
	}
	return s.order
}

// PriorityOrder returns the order that ONNX Runtime calls priority-based (its graph_viewer.cc and graph.cc) for a
// graph whose nodes have equal priorities, and whose backward nodes are not marked: that of the file, but Shape and
// Size nodes run as soon as they can. Constant nodes, which ONNX Runtime turns into initializers, come first. In the
// file, producers must come before their readers.
func PriorityOrder(g *graph.Graph) graph.Order {
	s := &scheduler{g: g, e: newEdges(g), placed: make([]bool, len(g.Nodes))}
	readers := s.shapeReaders()
	var ready []graph.NodeID // Shape and Size nodes
	for i := range g.Nodes {
		if id := graph.NodeID(i); s.e.constant[i] {
			s.place(id)
		} else if len(s.e.in(id)) == 0 && s.isShapeOf(id) {
			ready = append(ready, id)
		}
	}
	for next := 0; ; {
		switch {
		case len(ready) > 0:
			id := slices.Min(ready)
			ready = append(slices.DeleteFunc(ready, func(r graph.NodeID) bool { return r == id }), readers[id]...)
			s.place(id)
		case next == len(g.Nodes):
			return s.order
		default:
			if !s.placed[next] {
				s.place(graph.NodeID(next))
				ready = append(ready, readers[graph.NodeID(next)]...)
			}
			next++
		}
	}
}

type scheduler struct {
	g      *graph.Graph
	e      *edges
	order  graph.Order
	placed []bool
}

func (s *scheduler) place(id graph.NodeID) {
	s.placed[id] = true
	s.order = append(s.order, id)
}

// distances returns for every node the largest number of edges on a path from a node
// without in-edges.
func (s *scheduler) distances() []int32 {
	dist := make([]int32, len(s.g.Nodes))
	order, err := graph.Topological(s.g)
	if err != nil {
		panic("live: order asked of an unverified graph: " + err.Error())
	}
	for _, id := range order {
		for _, in := range s.e.in(id) {
			dist[id] = max(dist[id], dist[in.node]+1)
		}
	}
	return dist
}

// reverseDepthFirst emits the starting nodes and their ancestors in post-order. Among several
// producers, the one that less puts last is walked first.
func (s *scheduler) reverseDepthFirst(start []graph.NodeID, less func(a, b graph.NodeID) int) []graph.NodeID {
	type entry struct {
		node  graph.NodeID
		leave bool
	}
	var out, producers []graph.NodeID
	visited := make([]bool, len(s.g.Nodes))
	stack := make([]entry, 0, len(start))
	for _, id := range start {
		stack = append(stack, entry{id, false})
	}
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if top.leave {
			out = append(out, top.node)
			continue
		}
		if visited[top.node] {
			continue
		}
		visited[top.node] = true
		stack = append(stack, entry{top.node, true})
		producers = producers[:0]
		for _, in := range s.e.in(top.node) {
			if !visited[in.node] {
				producers = append(producers, in.node)
			}
		}
		slices.SortFunc(producers, less)
		for _, p := range producers {
			stack = append(stack, entry{p, false})
		}
	}
	return out
}

// isShapeOf reports whether a node only reads the shape of its input.
func (s *scheduler) isShapeOf(id graph.NodeID) bool {
	return op.Of(s.g.Nodes[id].Kind).Has(op.ShapeOf)
}

// shapeReaders lists for every node the Shape and Size nodes whose first in-edge
// comes from it.
func (s *scheduler) shapeReaders() map[graph.NodeID][]graph.NodeID {
	readers := map[graph.NodeID][]graph.NodeID{}
	for i := range s.g.Nodes {
		id := graph.NodeID(i)
		if in := s.e.in(id); len(in) > 0 && s.isShapeOf(id) {
			readers[in[0].node] = append(readers[in[0].node], id)
		}
	}
	return readers
}

// placeWithShapes places a node and, right after it, the Shape and Size nodes on it that are not
// placed yet, the last in the file first.
func (s *scheduler) placeWithShapes(id graph.NodeID, readers map[graph.NodeID][]graph.NodeID) {
	s.place(id)
	for _, r := range slices.Backward(readers[id]) {
		if !s.placed[r] {
			s.placeWithShapes(r, readers)
		}
	}
}

func (s *scheduler) depthFirstFromLeaves() {
	var leaves []graph.NodeID
	for i := range s.g.Nodes {
		if id := graph.NodeID(i); len(s.e.out(id)) == 0 && !s.e.constant[id] {
			leaves = append(leaves, id)
		}
	}
	readers := s.shapeReaders()
	for _, id := range s.reverseDepthFirst(leaves, cmp.Compare[graph.NodeID]) {
		if !s.placed[id] {
			s.placeWithShapes(id, readers)
		}
	}
}

// forwardHalf places the ancestors of the YieldOp, those far from the inputs
// first, and the Shape and Size nodes on them.
func (s *scheduler) forwardHalf(yield graph.NodeID) {
	dist := s.distances()
	var start []graph.NodeID
	for _, in := range s.e.in(yield) {
		start = append(start, in.node)
	}
	forward := s.reverseDepthFirst(start, func(a, b graph.NodeID) int {
		return cmp.Or(cmp.Compare(dist[a], dist[b]), cmp.Compare(a, b))
	})
	readers := s.shapeReaders()
	ancestor := make([]bool, len(s.g.Nodes))
	for _, id := range forward {
		ancestor[id] = true
	}
	for _, id := range forward {
		s.place(id)
		for _, r := range slices.Backward(readers[id]) {
			if !ancestor[r] && !s.placed[r] {
				s.placeWithShapes(r, readers)
			}
		}
	}
}

// backwardHalf places the YieldOp and the remaining nodes, breadth-first. Side nodes, those that do
// not depend on the YieldOp, are put off until their first reader.
func (s *scheduler) backwardHalf(yield graph.NodeID) {
	waits := make([]int32, len(s.g.Nodes)) // producers in this half that are not placed
	for i := range s.g.Nodes {
		id := graph.NodeID(i)
		if s.placed[id] || id == yield {
			continue
		}
		for _, in := range s.e.in(id) {
			if !s.placed[in.node] {
				waits[id]++
			}
		}
	}
	sides := s.findSideGroups(yield, waits)
	queue := []graph.NodeID{yield}
	for head := 0; head < len(queue); head++ {
		id := queue[head]
		for _, in := range s.e.in(id) {
			sides.placeProducer(s, in)
		}
		s.place(id)
		for _, out := range s.e.out(id) {
			if waits[out.node]--; waits[out.node] == 0 {
				queue = append(queue, out.node)
			}
		}
	}
	sides.placeRest(s)
}
