package op

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestFactorsOfMissingOperands: a node with fewer operands than its operator has, as a graph can hold
// that was not checked, has factors or none.
func TestFactorsOfMissingOperands(t *testing.T) {
	for k := Unknown + 1; k < NumKinds; k++ {
		if Of(k).Factors == nil {
			continue
		}
		for in := range 5 {
			for out := range 3 {
				g, n := nodeOf(t, k, in, out)
				for _, dims := range [][]int64{{4}, {4, 4}, {4, 4, 4}, {4, 4, 4, 4}} {
					p := &Pieces{Graph: g, Node: n, Version: Of(k).SinceVersion(math.MaxInt64),
						Dims: func(graph.ValueID) []int64 { return dims }}
					require.NotPanics(t, func() { FactorsOf(p) }, "%s of %d inputs and %d outputs of rank %d",
						Of(k).Name, in, out, len(dims))
				}
			}
		}
	}
}

// nodeOf makes a graph of one node with so many operands.
func nodeOf(t *testing.T, k graph.Kind, in, out int) (*graph.Graph, *graph.Node) {
	t.Helper()
	g := graph.New("g", nil)
	n := &graph.Node{Op: Of(k).Name, Domain: Of(k).Domain, Kind: k}
	for i := range in {
		n.Inputs = append(n.Inputs, g.Value(fmt.Sprint("in", i)))
	}
	for i := range out {
		n.Outputs = append(n.Outputs, g.Value(fmt.Sprint("out", i)))
	}
	require.NoError(t, g.AddNode(n))
	return g, n
}
