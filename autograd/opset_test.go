package autograd_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
)

// requireBFloat16 checks that no operator of a graph is given bfloat16 before its schema has it.
func requireBFloat16(t *testing.T, m *graph.Model, g *graph.Graph) {
	t.Helper()
	for _, n := range g.Nodes {
		for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
			for _, v := range list {
				if n.Domain == "" && v != graph.NoValue && g.Values[v].Type.DType == graph.BFloat16 {
					require.LessOrEqual(t, op.BFloat16Since(n.Kind), m.OpsetVersion(""), "node %q (%s)", n.Name, n.Op)
				}
			}
		}
		n.Subgraphs(func(_ string, sub *graph.Graph) { requireBFloat16(t, m, sub) })
	}
}

// TestBFloat16Sets: the operator set is raised until it takes bfloat16 where the gradients have it,
// and no further.
func TestBFloat16Sets(t *testing.T) {
	for _, c := range []struct {
		body     string
		from, to int64
	}{
		{"y = Mul(x, w)", 13, 13},
		{"y = Relu(h)", 13, 16}, // Where
		{"y = Relu(h)", 16, 16},
		{"y = Max(x, w)", 14, 16},
		{"y = Tanh(h)", 13, 13},
		{"y = CumSum(h, axis)", 14, 14},
		{"t = Softmax(h)  y = Mul(t, w)", 13, 13},
		{"f = Flatten(x)  y = MaxPool<kernel_shape = [2]>(plane)", 22, 22},
		{"y = If<then_branch = t () => (bfloat16[2, 3] r) { r = Mul(x, w) }, else_branch = e () => (bfloat16[2, 3] " +
			"s) { s = Tanh(x) }>(c)", 16, 16},
		{"y = Loop<body = b (int64 i, bool go, bfloat16[2, 3] s) => (bool go2, bfloat16[2, 3] s2) { go2 = " +
			"Identity(go)  s2 = Mul(s, w) }>(n, c, x)", 16, 16},
	} {
		t.Run(fmt.Sprint(c.body, c.from), func(t *testing.T) {
			m, err := graph.Parse(
				fmt.Sprintf(
					`<ir_version: 8, opset_import: ["" : %d]> g (bfloat16[2, 3] x, bfloat16[2, 3] w, bool c, int64 n) => (bfloat16 loss) <int64 axis = {1}, int64[3] flat = {1, 2, 3}> {
				h = Mul(x, w)  plane = Reshape(h, flat)  %s  loss = ReduceMean<keepdims = 0>(y) }`, c.from, c.body), "bf16")
			require.NoError(t, err)
			j, err := autograd.Differentiate(m,
				autograd.Options{Losses: []autograd.Loss{{Name: "loss"}}, Wrt: []string{"x", "w"}, LossScale: "scale"})
			require.NoError(t, err)
			require.Equal(t, c.to, j.Model.OpsetVersion(""))
			requireBFloat16(t, j.Model, j.Model.Graph)
			require.NoError(t,
				autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw", WeightDecay: 0.1, MaxNorm: 1}))
			requireBFloat16(t, j.Model, j.Model.Graph)
		})
	}
}

// TestOperatorSets: no emitted operator is newer than the operator set that the file imports.
func TestOperatorSets(t *testing.T) {
	for from := int64(7); from <= 12; from++ {
		m, err := graph.Parse(
			fmt.Sprintf(
				`<ir_version: 3, opset_import: ["" : %d]> g (float[N, 3] x, float[3] w, float[K, 2] idle) => (float[1, 1] loss, float[K, 2] rest) {
			h = Mul(x, w)  a = Tanh(h)  t = Transpose<perm = [1, 0]>(a)  loss = ReduceMean(t)  rest = Neg(idle) }`, from), "old")
		require.NoError(t, err)
		j, err := autograd.Differentiate(m,
			autograd.Options{Losses: []autograd.Loss{{Name: "loss"}}, Wrt: []string{"x", "w", "idle"}})
		require.NoError(t, err)
		require.Equal(t, []string{"idle"}, j.Unreached)
		for _, n := range j.Model.Graph.Nodes {
			require.NotZero(t, op.Of(n.Kind).SinceVersion(j.Model.OpsetVersion("")), "operator set %d: node %q (%s)",
				from, n.Name, n.Op)
		}
		require.Equal(t, max(from, 9), j.To)
	}
}
