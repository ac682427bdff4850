package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// fusedMatMulRule: MatMul(A', B') times alpha, where A' is A with its last two axes swapped
// (transA) after its first axis has been moved behind the batch axes (transBatchA).
func fusedMatMulRule(c *Ctx) {
	if !c.rankFrom(0, 1) || !c.rankFrom(1, 1) {
		return
	}
	a := turned(c.Shape(0), c.Int("transBatchA", 0) != 0, c.Int("transA", 0) != 0)
	b := turned(c.Shape(1), c.Int("transBatchB", 0) != 0, c.Int("transB", 0) != 0)
	d := c.sameTypes(0, 1)
	if s := c.MatMulShape(a, b); !c.Failed() {
		c.OutTensor(0, d, s)
	}
}

// turned applies FusedMatMul's transpositions. Vectors stay as they are.
func turned(s graph.Shape, batch, matrix bool) graph.Shape {
	n := len(s.Dims)
	if n < 2 {
		return s
	}
	out := graph.Dims(append([]symbolic.Expr(nil), s.Dims...)...)
	if batch {
		copy(out.Dims, s.Dims[1:n-1])
		out.Dims[n-2] = s.Dims[0]
	}
	if matrix {
		out.Dims[n-1], out.Dims[n-2] = out.Dims[n-2], out.Dims[n-1]
	}
	return out
}

// fusedMatMulFLOPs: twice the output's elements times the length of the sums.
func fusedMatMulFLOPs(c *Ctx) symbolic.Expr {
	a := turned(c.Shape(0), c.Int("transBatchA", 0) != 0, c.Int("transA", 0) != 0)
	return mul(symbolic.Const(2), c.OutElements(0), dimAt(a, -1))
}
