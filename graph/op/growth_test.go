package op_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
)

// TestGrowthIsBounded: dims that grow with every node are expressions while they are small, and
// what all values' dims have in terms, and the sizes of values, stays within a bound that does not
// depend on the graph.
func TestGrowthIsBounded(t *testing.T) {
	const most = 3 << 22 // a few times op's own bound: it leaves out what is small
	for _, f := range graphtest.Select(t, "sums", "products", "floors") {
		m := f.Make(3000)
		op.Bind(m)
		_, err := op.InferAsIs(m)
		require.NoError(t, err, f.Name)
		known, total := 0, 0
		for i := range m.Graph.Values {
			v := &m.Graph.Values[i]
			if v.Type.Shape.Rank() > 0 && v.Type.Shape.Dims[0].IsKnown() {
				known++
			}
			total += v.Type.Bytes().Terms()
			for _, d := range v.Type.Shape.Dims {
				total += d.Size()
			}
		}
		require.Greater(t, known, len(m.Graph.Values)/3, "%s: inputs and the first nodes are known", f.Name)
		require.Less(t, total, most, f.Name)
	}
}

// TestSmallExpressionsAreFree: a graph of usual shapes is known to its end, however long it is.
func TestSmallExpressionsAreFree(t *testing.T) {
	m := graphtest.Select(t, "shapes")[0].Make(2000)
	_, err := op.Infer(m)
	require.NoError(t, err)
	for i := range m.Graph.Values {
		require.True(t, m.Graph.Values[i].Type.Shape.Known(), "%v", m.Graph.Values[i])
	}
}

// TestLoopsInLoops: types that change with every iteration at many levels at once end in a fault of
// the node, not in a walk without end.
func TestLoopsInLoops(t *testing.T) {
	m := graphtest.GrowingLoops(12)
	res, err := op.InferAsIs(m)
	require.NoError(t, err)
	require.Positive(t, res.Opaque(m.Graph))
	_, err = op.Infer(graphtest.GrowingLoops(12))
	require.ErrorContains(t, err, "do not settle")
	_, err = op.Infer(graphtest.GrowingLoops(4))
	require.NoError(t, err)
}

// TestManyOperands: the type of each of very many operands counts, wherever it stands.
func TestManyOperands(t *testing.T) {
	const n = 5000
	for _, at := range []int{1, 2, n - 1} {
		m := graphtest.Select(t, "inputs-of-node")[0].Make(n)
		sum := m.Graph.Nodes[n]
		odd := m.Graph.Value("odd")
		require.NoError(t,
			m.Graph.AddInput(graph.Decl{Value: odd, Type: graph.Tensor(graph.Float64, graph.Ints(4, 8))}))
		sum.Inputs[at] = odd
		_, err := op.Infer(m)
		require.ErrorContains(t, err, fmt.Sprintf("input %d has type", at))
		require.ErrorContains(t, err, "double")
	}
}
