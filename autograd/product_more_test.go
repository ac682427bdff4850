package autograd_test

import (
	"testing"

	"memopt/executor"
	"memopt/symbolic"
)

// TestEinsum: contractions, sums, outer products, ellipses, labels that broadcast.
func TestEinsum(t *testing.T) {
	n := symbolic.Env{"N": 2, "M": 3, "K": 4}
	checkGradients(t, []gradCase{
		{Name: "product", Graph: `g (double[2, 3] a, double[3, 4] b) => (double[2, 4] y) { y = Einsum<equation = "ij,jk->ik">(a, b) }`},
		{Name: "implicit", Graph: `g (double[N, M] a, double[M, K] b) => (double[N, K] y) { y = Einsum<equation = "ij, jk">(a, b) }`, Dims: n},
		{Name: "attention", Graph: `g (double[N, 2, M, K] a, double[N, 2, 5, K] b) => (double[N, 2, M, 5] y) { y = Einsum<equation = "bhid,bhjd->bhij">(a, b) }`, Dims: n},
		{Name: "permutation", Graph: `g (double[2, 3, 4] a) => (double[4, 2, 3] y) { y = Einsum<equation = "ijk->kij">(a) }`},
		{Name: "same", Graph: `g (double[2, 3] a) => (double[2, 3] y) { y = Einsum<equation = "ij->ij">(a) }`},
		{Name: "sum", Graph: `g (double[N, M] a) => (double[N] y) { y = Einsum<equation = "ij->i">(a) }`, Dims: n},
		{Name: "sum of all", Graph: `g (double[2, 3] a) => (double y) { y = Einsum<equation = "ij->">(a) }`},
		{Name: "sum in one", Graph: `g (double[2, 3, 2] a, double[3, 4] b) => (double[2, 4] y) { y = Einsum<equation = "ijl,jk->ik">(a, b) }`},
		{Name: "outer", Graph: `g (double[2] a, double[3] b) => (double[2, 3] y) { y = Einsum<equation = "i,j->ij">(a, b) }`},
		{Name: "three", Graph: `g (double[2, 3] a, double[3, 4] b, double[4, 2] c) => (double[2, 2] y) { y = Einsum<equation = "ij,jk,kl->li">(a, b, c) }`},
		{Name: "scalar", Graph: `g (double a, double[3] b) => (double[3] y) { y = Einsum<equation = ",j->j">(a, b) }`},
		{Name: "ellipsis", Graph: `g (double[2, 5, 2, 3] a, double[3, 4] b) => (double[2, 5, 2, 4] y) { y = Einsum<equation = "...ij,jk->...ik">(a, b) }`},
		{Name: "ellipses", Graph: `g (double[2, 5, 2, 3] a, double[5, 3, 4] b) => (double[2, 5, 2, 4] y) { y = Einsum<equation = "...ij,...jk">(a, b) }`},
		{Name: "ellipsis last", Graph: `g (double[2, 3, 4] a, double[3] b) => (double[2, 4] y) { y = Einsum<equation = "ij...,j->i...">(a, b) }`},
		{Name: "broadcast", Graph: `g (double[2, 1] a, double[3, 4] b) => (double[2, 4] y) { y = Einsum<equation = "ij,jk->ik">(a, b) }`},
		{Name: "broadcast kept", Graph: `g (double[2, 1] a, double[2, 3] b) => (double[2, 3] y) { y = Einsum<equation = "ij,ij->ij">(a, b) }`},
		{Name: "diagonal", Graph: `g (double[3, 3] a) => (double[3] y) { y = Einsum<equation = "ii->i">(a) }`, Fails: "twice"},
		{Name: "diagonal of the other", Graph: `g (double[3, 3] a, double[3] b) => (double[3] y) { y = Einsum<equation = "ii,i->i">(a, b) }`, Wrt: []string{"b"}},
	})
}

// TestRotaryEmbedding: halves and pairs, a part of the head, positions.
func TestRotaryEmbedding(t *testing.T) {
	pos := map[string]*executor.Tensor{"p": nnInts([]int{2, 3}, 0, 2, 1, 4, 3, 0)}
	n := symbolic.Env{"B": 2, "S": 3}
	x := []string{"x"}
	checkGradients(t, []gradCase{
		{Name: "halves", Opset: 23, Graph: `g (double[2, 2, 3, 4] x, double[2, 3, 2] c, double[2, 3, 2] s) => (double[2, 2, 3, 4] y) { y = RotaryEmbedding(x, c, s) }`, Wrt: x},
		{Name: "pairs", Opset: 23, Graph: `g (double[2, 2, 3, 4] x, double[2, 3, 2] c, double[2, 3, 2] s) => (double[2, 2, 3, 4] y) { y = RotaryEmbedding<interleaved = 1>(x, c, s) }`, Wrt: x},
		{Name: "packed", Opset: 23, Graph: `g (double[B, S, 8] x, double[5, 1] c, double[5, 1] s, int64[B, S] p) => (double[B, S, 8] y) { y = RotaryEmbedding<num_heads = 2, rotary_embedding_dim = 2>(x, c, s, p) }`, In: pos, Wrt: x, Dims: n},
	})
}
