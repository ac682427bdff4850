package verify

import (
	"memopt/graph"
	"memopt/graph/live"
)

// Backward returns, by node, whether it is of the backward half; nil for a graph without one.
func (s *Side) Backward() []bool {
	b, err := live.FindBoundary(s.Model)
	if err != nil {
		return nil
	}
	order := s.Order
	if order == nil {
		order, _ = graph.Topological(s.Model.Graph)
	}
	return live.Split(s.Model.Graph, b, order)
}

// BackwardNodes counts the nodes of the backward half.
func (s *Side) BackwardNodes() int {
	n := 0
	for _, is := range s.Backward() {
		if is {
			n++
		}
	}
	return n
}
