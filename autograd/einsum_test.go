package autograd_test

import (
	"testing"

	"memopt/symbolic"
)

// TestEinsum: contractions, sums, outer products, ellipses, labels that broadcast.
func TestEinsum(t *testing.T) {
	n := symbolic.Env{"N": 2, "M": 3, "K": 4}
	checkGradients(t, []gradCase{
		{Name: "product",
			Graph: `g (double[2, 3] a, double[3, 4] b) => (double[2, 4] y) { y = Einsum<equation = "ij,jk->ik">(a, b) }`},
		{Name: "implicit",
			Graph: `g (double[N, M] a, double[M, K] b) => (double[N, K] y) { y = Einsum<equation = "ij, jk">(a, b) }`,
			Dims:  n},
		{Name: "attention",
			Graph: `g (double[N, 2, M, K] a, double[N, 2, 5, K] b) => (double[N, 2, M, 5] y) { y = Einsum<equation = "bhid,bhjd->bhij">(a, b) }`,
			Dims:  n},
		{Name: "permutation",
			Graph: `g (double[2, 3, 4] a) => (double[4, 2, 3] y) { y = Einsum<equation = "ijk->kij">(a) }`},
		{Name: "same", Graph: `g (double[2, 3] a) => (double[2, 3] y) { y = Einsum<equation = "ij->ij">(a) }`},
		{Name: "sum", Graph: `g (double[N, M] a) => (double[N] y) { y = Einsum<equation = "ij->i">(a) }`, Dims: n},
		{Name: "sum of all", Graph: `g (double[2, 3] a) => (double y) { y = Einsum<equation = "ij->">(a) }`},
		{Name: "sum in one",
			Graph: `g (double[2, 3, 2] a, double[3, 4] b) => (double[2, 4] y) { y = Einsum<equation = "ijl,jk->ik">(a, b) }`},
		{Name: "outer",
			Graph: `g (double[2] a, double[3] b) => (double[2, 3] y) { y = Einsum<equation = "i,j->ij">(a, b) }`},
		{Name: "three",
			Graph: `g (double[2, 3] a, double[3, 4] b, double[4, 2] c) => (double[2, 2] y) { y = Einsum<equation = "ij,jk,kl->li">(a, b, c) }`},
		{Name: "scalar", Graph: `g (double a, double[3] b) => (double[3] y) { y = Einsum<equation = ",j->j">(a, b) }`},
		{Name: "ellipsis",
			Graph: `g (double[2, 5, 2, 3] a, double[3, 4] b) => (double[2, 5, 2, 4] y) { y = Einsum<equation = "...ij,jk->...ik">(a, b) }`},
		{Name: "ellipses",
			Graph: `g (double[2, 5, 2, 3] a, double[5, 3, 4] b) => (double[2, 5, 2, 4] y) { y = Einsum<equation = "...ij,...jk">(a, b) }`},
		{Name: "ellipsis last",
			Graph: `g (double[2, 3, 4] a, double[3] b) => (double[2, 4] y) { y = Einsum<equation = "ij...,j->i...">(a, b) }`},
		{Name: "broadcast",
			Graph: `g (double[2, 1] a, double[3, 4] b) => (double[2, 4] y) { y = Einsum<equation = "ij,jk->ik">(a, b) }`},
		{Name: "broadcast kept",
			Graph: `g (double[2, 1] a, double[2, 3] b) => (double[2, 3] y) { y = Einsum<equation = "ij,ij->ij">(a, b) }`},
		{Name: "diagonal", Graph: `g (double[3, 3] a) => (double[3] y) { y = Einsum<equation = "ii->i">(a) }`,
			Fails: "twice"},
		{Name: "diagonal of the other",
			Graph: `g (double[3, 3] a, double[3] b) => (double[3] y) { y = Einsum<equation = "ii,i->i">(a, b) }`,
			Wrt:   []string{"b"}},
	})
}
