package edit

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/onnx"
)

// Size is how large a model is.
type Size struct {
	Nodes        int   `json:"nodes"` // those of subgraphs included
	Initializers int   `json:"initializers"`
	Bytes        int64 `json:"bytes"` // of the model's file and of its external data together
}

// SizeOf measures a model as it would be written.
func SizeOf(m *graph.Model) (Size, error) {
	file, outside, err := onnx.Size(m)
	if err != nil {
		return Size{}, fmt.Errorf("%s: %w", m.Path, err)
	}
	s := Size{Bytes: file + outside}
	s.count(m.Graph)
	return s, nil
}

func (s *Size) count(g *graph.Graph) {
	s.Nodes += len(g.Nodes)
	s.Initializers += len(g.Initializers) + len(g.Sparse)
	for _, n := range g.Nodes {
		n.Subgraphs(func(_ string, sub *graph.Graph) { s.count(sub) })
	}
}
