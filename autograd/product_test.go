package autograd_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/symbolic"
)

// TestMatMul: vectors, matrices, stacks, broadcasting, known and symbolic dims, transposed
// operands.
func TestMatMul(t *testing.T) {
	n := symbolic.Env{"N": 2, "M": 3, "K": 4, "B": 2, "H": 1}
	checkGradients(t, []gradCase{
		{Name: "matrices", Graph: `g (double[2, 3] a, double[3, 4] b) => (double[2, 4] y) { y = MatMul(a, b) }`},
		{Name: "vectors", Graph: `g (double[3] a, double[3] b) => (double y) { y = MatMul(a, b) }`},
		{Name: "row", Graph: `g (double[3] a, double[3, 4] b) => (double[4] y) { y = MatMul(a, b) }`},
		{Name: "column", Graph: `g (double[2, 3] a, double[3] b) => (double[2] y) { y = MatMul(a, b) }`},
		{Name: "row and stack", Graph: `g (double[3] a, double[2, 3, 4] b) => (double[2, 4] y) { y = MatMul(a, b) }`},
		{Name: "stack and column",
			Graph: `g (double[2, 5, 3] a, double[3] b) => (double[2, 5] y) { y = MatMul(a, b) }`},
		{Name: "stacks", Graph: `g (double[2, 5, 3] a, double[2, 3, 4] b) => (double[2, 5, 4] y) { y = MatMul(a, b) }`},
		{Name: "stacks 4",
			Graph: `g (double[2, 3, 2, 3] a, double[2, 3, 3, 4] b) => (double[2, 3, 2, 4] y) { y = MatMul(a, b) }`},
		{Name: "stack and matrix",
			Graph: `g (double[2, 2, 5, 3] a, double[3, 4] b) => (double[2, 2, 5, 4] y) { y = MatMul(a, b) }`},
		{Name: "matrix and stack",
			Graph: `g (double[5, 3] a, double[2, 3, 4] b) => (double[2, 5, 4] y) { y = MatMul(a, b) }`},
		{Name: "broadcast stacks",
			Graph: `g (double[2, 1, 5, 3] a, double[3, 3, 4] b) => (double[2, 3, 5, 4] y) { y = MatMul(a, b) }`},
		{Name: "symbolic", Graph: `g (double[N, K] a, double[K, M] b) => (double[N, M] y) { y = MatMul(a, b) }`,
			Dims: n},
		{Name: "symbolic stack",
			Graph: `g (double[B, N, 4] a, double[4, 3] b) => (double[B, N, 3] y) { y = MatMul(a, b) }`,
			Dims:  n},
		{Name: "symbolic stack, a only",
			Graph: `g (double[B, N, K] a, double[K, 3] b) => (double[B, N, 3] y) { y = MatMul(a, b) }`,
			Dims:  n, Wrt: []string{"a"}},
		{Name: "one symbolic",
			Graph: `g (double[B, 2, 4] a, double[4, 3] b) => (double[B, 2, 3] y) { y = MatMul(a, b) }`,
			Dims:  n},
		{Name: "maybe broadcast",
			Graph: `g (double[B, N, 4] a, double[H, 4, 3] b) => (double[B, N, 3] y) { y = MatMul(a, b) }`,
			Dims:  n},
		{Name: "b transposed",
			Graph: `g (double[B, N, 4] a, double[3, 4] w) => (double[B, N, 3] y) { b = Transpose<perm = [1, 0]>(w)  y = MatMul(a, b) }`,
			Dims:  n, Wrt: []string{"a"}},
		{Name: "stack transposed",
			Graph: `g (double[2, N, 4] a, double[2, 3, 4] w) => (double[2, N, 3] y) { b = Transpose<perm = [0, 2, 1]>(w)  y = MatMul(a, b) }`,
			Dims:  n, Wrt: []string{"a"}},
		{Name: "reversed",
			Graph: `g (double[B, N, 4] a, double[3, 4] w) => (double[B, N, 3] y) { b = Transpose(w)  y = MatMul(a, b) }`,
			Dims:  n, Wrt: []string{"a"}},
		{Name: "stack reversed",
			Graph: `g (double[2, N, 4] a, double[3, 4, 2] w) => (double[2, N, 3] y) { b = Transpose(w)  y = MatMul(a, b) }`,
			Dims:  n, Wrt: []string{"a"}},
		{Name: "old", Opset: 9, Graph: `g (double[2, 3] a, double[3, 4] b) => (double[2, 4] y) { y = MatMul(a, b) }`},
		{Name: "older", Opset: 1, Graph: `g (double[2, 3] a, double[3, 4] b) => (double[2, 4] y) { y = MatMul(a, b) }`},
	})
}

// TestThroughTransposes: of a matrix that the forward half transposes the backward half reads what
// was transposed; without a permutation a Transpose reverses the axes, of which only matrices have
// two.
func TestThroughTransposes(t *testing.T) {
	for _, attributes := range []string{"", "<perm = [1, 0]>"} {
		m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]> g (float[B, 4] a, float[3, 4] w)
			=> (float[B, 3] y) { b = Transpose%s(w)  y = MatMul(a, b) }`, attributes), "g")
		require.NoError(t, err)
		inferred(t, m)
		j, err := autograd.Differentiate(m, autograd.Options{
			Wrt: []string{"a"}, Losses: []autograd.Loss{{Name: "y", Seed: true}}})
		require.NoError(t, err)
		b, _ := j.Model.Graph.Lookup("b")
		require.Len(t, graph.NewUses(j.Model.Graph).Of(b), 1, attributes)
	}
}

// TestGemm: transpositions, factors, biases of every form, dialects.
func TestGemm(t *testing.T) {
	n := symbolic.Env{"N": 2, "M": 3, "K": 4}
	checkGradients(t, []gradCase{
		{Name: "no bias", Graph: `g (double[2, 3] a, double[3, 4] b) => (double[2, 4] y) { y = Gemm(a, b) }`},
		{
			Name:  "bias",
			Graph: `g (double[2, 3] a, double[3, 4] b, double[4] c) => (double[2, 4] y) { y = Gemm(a, b, c) }`,
		},
		{
			Name: "a", Graph: `g (double[3, 2] a, double[3, 4] b, double[2, 1] c) => (double[2, 4] y) { y = Gemm<transA = 1, alpha = 0.5>(a, b, c) }`,
		},
		{
			Name: "b", Graph: `g (double[2, 3] a, double[4, 3] b, double c) => (double[2, 4] y) { y = Gemm<transB = 1, beta = -2.0>(a, b, c) }`,
		},
		{
			Name:  "both",
			Graph: `g (double[3, 2] a, double[4, 3] b, double[2, 4] c) => (double[2, 4] y) { y = Gemm<transA = 1, transB = 1, alpha = 1.5, beta = 0.5>(a, b, c) }`,
		},
		{Name: "symbolic",
			Graph: `g (double[N, K] a, double[M, K] b, double[M] c) => (double[N, M] y) { y = Gemm<transB = 1>(a, b, c) }`,
			Dims:  n},
		{Name: "old", Opset: 9,
			Graph: `g (double[2, 3] a, double[4, 3] b, double[4] c) => (double[2, 4] y) { y = Gemm<transB = 1>(a, b, c) }`},
		{Name: "fused",
			Graph: `g (double[3, 2] a, double[4, 3] b, double[4] c) => (double[2, 4] y) { y = com.microsoft.FusedGemm<transA = 1, transB = 1, alpha = 1.5, activation = "Relu">(a, b, c) }`},
		{Name: "fused, no activation",
			Graph: `g (double[2, 3] a, double[3, 4] b) => (double[2, 4] y) { y = com.microsoft.FusedGemm(a, b) }`},
		{Name: "fused, other",
			Graph: `g (double[2, 3] a, double[3, 4] b) => (double[2, 4] y) { y = com.microsoft.FusedGemm<activation = "Tanh">(a, b) }`,
			Fails: "Tanh"},
	})
}

// TestFusedMatMul: the product of operands that are transposed on demand.
func TestFusedMatMul(t *testing.T) {
	checkGradients(t, []gradCase{
		{Name: "plain",
			Graph: `g (double[2, 5, 3] a, double[2, 3, 4] b) => (double[2, 5, 4] y) { y = com.microsoft.FusedMatMul<alpha = 0.5>(a, b) }`},
		{
			Name: "a", Graph: `g (double[2, 3, 5] a, double[2, 3, 4] b) => (double[2, 5, 4] y) { y = com.microsoft.FusedMatMul<transA = 1>(a, b) }`,
		},
		{
			Name: "b", Graph: `g (double[5, 3] a, double[2, 4, 3] b) => (double[2, 5, 4] y) { y = com.microsoft.FusedMatMul<transB = 1>(a, b) }`,
		},
		{Name: "both", Graph: `g (double[B, 3, 5] a, double[4, 3] b) => (double[B, 5, 4] y) { y = com.microsoft.FusedMatMul<transA = 1, transB = 1, alpha = 2.0>(a, b) }`,
			Dims: symbolic.Env{"B": 2}},
		{Name: "batch",
			Graph: `g (double[3, 2, 5] a, double[2, 5, 4] b) => (double[2, 3, 4] y) { y = com.microsoft.FusedMatMul<transBatchA = 1>(a, b) }`,
			Fails: "transBatchA"},
	})
}
