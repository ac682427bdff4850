package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// matMulRule: numpy.matmul.
func matMulRule(c *Ctx) {
	c.want(0, numbers)
	c.OutTensor(0, c.sameTypes(0, 1), c.MatMulShape(c.Shape(0), c.Shape(1)))
}

// MatMulShape returns the shape of numpy.matmul(a, b): products of the last two
// dims, leading dims broadcast, and operands of rank 1 taken as a row and a column that
// the result does not have.
func (c *Ctx) MatMulShape(a, b graph.Shape) graph.Shape {
	if !a.Ranked || !b.Ranked {
		return graph.Shape{}
	}
	ra, rb := len(a.Dims), len(b.Dims)
	if ra == 0 || rb == 0 {
		c.Errorf("shapes %v and %v cannot be multiplied: scalars have no rows or columns", a, b)
		return graph.Shape{}
	}
	inner := b.Dims[0]
	if rb > 1 {
		inner = b.Dims[rb-2]
	}
	if !c.sameInner(a, b, a.Dims[ra-1], inner) {
		return graph.Shape{}
	}
	lead, fault := c.inf.broadcastShapes(graph.Dims(a.Dims[:max(ra-2, 0)]...), graph.Dims(b.Dims[:max(rb-2, 0)]...))
	if fault != "" {
		c.Errorf("shapes %v and %v cannot be multiplied: of the dims before the last two, %s", a, b, fault)
		return graph.Shape{}
	}
	dims := append(make([]symbolic.Expr, 0, len(lead.Dims)+2), lead.Dims...)
	if ra > 1 {
		dims = append(dims, a.Dims[ra-2])
	}
	if rb > 1 {
		dims = append(dims, b.Dims[rb-1])
	}
	return graph.Dims(dims...)
}

// sameInner checks that the dims that a product sums over are not different numbers.
func (c *Ctx) sameInner(a, b graph.Shape, x, y symbolic.Expr) bool {
	xn, xConst := x.Const()
	yn, yConst := y.Const()
	if xConst && yConst && xn != yn {
		c.Errorf("shapes %v and %v cannot be multiplied: %d columns meet %d rows", a, b, xn, yn)
		return false
	}
	c.inf.meet(x, y)
	return true
}

// matMulFLOPs counts a multiplication and an addition per term: 2*M*N*K.
func matMulFLOPs(c *Ctx) symbolic.Expr {
	a := c.Shape(0)
	if len(a.Dims) == 0 {
		return symbolic.Unknown()
	}
	return symbolic.Const(2).Mul(c.OutElements(0)).Mul(a.Dims[len(a.Dims)-1])
}

// gemmRule: Y = alpha*A'*B' + beta*C for matrices A and B, each transposed on demand.
func gemmRule(c *Ctx) {
	c.want(0, numbers)
	dtype := c.sameTypes(0, 1, 2)
	if !c.wantRank(0, 2) || !c.wantRank(1, 2) || c.Failed() {
		return
	}
	m, k1 := c.matrix(0, "transA")
	k2, n := c.matrix(1, "transB")
	if !c.sameInner(c.Shape(0), c.Shape(1), k1, k2) {
		return
	}
	out := graph.Dims(m, n)
	if c.Has(2) && c.Version >= 7 {
		c.broadcastTo("input 2", c.Shape(2), out)
	}
	c.OutTensor(0, dtype, out)
}

// matrix returns the rows and columns of input i after the transposition that an
// attribute asks for.
func (c *Ctx) matrix(i int, trans string) (rows, cols symbolic.Expr) {
	s := c.Shape(i)
	if !s.Ranked {
		return symbolic.Unknown(), symbolic.Unknown()
	}
	if c.Int(trans, 0) != 0 {
		return s.Dims[1], s.Dims[0]
	}
	return s.Dims[0], s.Dims[1]
}

// gemmFLOPs is 2*M*N*K; the bias is left out.
func gemmFLOPs(c *Ctx) symbolic.Expr {
	if len(c.Shape(0).Dims) != 2 {
		return symbolic.Unknown()
	}
	_, k := c.matrix(0, "transA")
	return symbolic.Const(2).Mul(c.OutElements(0)).Mul(k)
}

// detRule: one determinant per matrix in the last two dims.
func detRule(c *Ctx) {
	c.want(0, floats)
	in := c.Shape(0)
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	r := len(in.Dims)
	if r < 2 {
		c.Errorf("input 0 has shape %v, wanted matrices in the last two dims", in)
		return
	}
	c.Unify("rows and columns of a square matrix", in.Dims[r-2], in.Dims[r-1])
	c.OutTensor(0, c.DType(0), graph.Dims(in.Dims[:r-2]...))
}

// detFLOPs is 2/3*N³ per matrix, as an LU factorization takes.
func detFLOPs(c *Ctx) symbolic.Expr {
	in := c.Shape(0)
	if len(in.Dims) < 2 {
		return symbolic.Unknown()
	}
	n := in.Dims[len(in.Dims)-1]
	return symbolic.Const(2).Mul(n).Mul(n).Mul(n).Mul(c.OutElements(0)).FloorDiv(symbolic.Const(3))
}
