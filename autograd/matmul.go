package autograd

import (
	"memopt/graph"
)

// matMulRule: for Y = A·B, dA = dY·Bᵀ and dB = Aᵀ·dY, summed over the broadcast axes. Stashes A for
// dB and B for dA. An operand of rank 1 is a row or a column. Where B is one matrix and A a stack
// of them, dB is one product of the flattened stacks, not a sum of many.
func matMulRule(c *Ctx) {
	a, b, g := c.In(0), c.In(1), c.Grad(0)
	ra, rb := c.Rank(a), c.Rank(b)
	if ra == 1 && rb == 1 {
		g = c.Unsqueeze(g, 0)
	} else if ra == 1 {
		g = c.Unsqueeze(g, int64(rb-2))
	}
	if rb == 1 {
		b = c.Unsqueeze(b, 1)
		g = c.Unsqueeze(g, int64(max(ra, 2)-1))
	}
	if ra == 1 {
		a = c.Unsqueeze(a, 0)
	}
	var da, db Value
	if max(rb, 2) == 2 && ra > 2 {
		da, db = c.flatProducts(a, b, g)
	} else {
		da, db = c.stackProducts(a, b, g)
	}
	if c.Wants(1) {
		if rb == 1 {
			db = c.Squeeze(db, 1)
		}
		c.Set(1, db)
	}
	if c.Wants(0) {
		if ra == 1 {
			da = c.Squeeze(da, 0)
		}
		c.Set(0, da)
	}
}

// stackProducts multiplies matrices or stacks of matrices and undoes broadcasting.
func (c *Ctx) stackProducts(a, b, g Value) (da, db Value) {
	da, db = None, None
	if left, dy := (matrixView{a, true}), (matrixView{g, false}); c.Wants(1) && !c.setUntransposed(1, left, dy, 1) {
		db = c.SumTo(c.product(left, dy, 1), b)
	}
	if c.Wants(0) {
		da = c.SumTo(c.product(matrixView{g, false}, matrixView{b, true}, 1), a)
	}
	return da, db
}

// flatProducts multiplies a stack A with one matrix B: all rows of A are the rows of one matrix.
func (c *Ctx) flatProducts(a, b, g Value) (da, db Value) {
	da, db = None, None
	rows := c.rowsOf(g)
	if c.Wants(1) {
		left, dy := matrixView{c.rowsOf(a), true}, matrixView{rows, false}
		if !c.setUntransposed(1, left, dy, 1) {
			db = c.product(left, dy, 1)
		}
	}
	if c.Wants(0) {
		da = c.product(matrixView{rows, false}, matrixView{b, true}, 1)
		da = c.formVia(da, a, g)
	}
	return da, db
}

// setUntransposed gives a tied matrix, whose transpose is input i, the transpose of a product of two
// matrices as its gradient: as the product of their transposes, since a Transpose of the product would
// be a second copy of the largest weight, a table of words. Each element is the same sum, but
// libraries add it up in another order; those of matrices that are read but once keep theirs.
func (c *Ctx) setUntransposed(i int, left, right matrixView, alpha float32) bool {
	l, _ := c.Dims(left.v)
	r, _ := c.Dims(right.v)
	matrix := c.j.tiedMatrix(c.Node.Input(i))
	if matrix == None || len(l) != 2 || len(r) != 2 {
		return false
	}
	c.j.accumulate(c, matrix, c.product(right.T(), left.T(), alpha))
	return true
}

// tiedMatrix returns the matrix that v is the transpose of, if v has one reader, the matrix has
// more, and its gradient is wanted; else None.
func (j *joint) tiedMatrix(v Value) Value {
	def := j.g.Values[v].Def
	if def == graph.NoNode || int(v) >= len(j.readers) || j.readers[v] != 1 || j.g.Values[v].Output {
		return None
	}
	n := j.g.Nodes[def]
	if len(j.g.Values[v].Type.Shape.Dims) != 2 || !swapsLastTwo(n, 2) {
		return None
	}
	if matrix := n.Inputs[0]; j.readers[matrix] >= 2 && j.requires[matrix] {
		return matrix
	}
	return None
}

// gemmRule: for Y = alpha·A'·B' + beta·C with A' and B' transposed on demand, dA' = alpha·dY·B'ᵀ,
// dB' = alpha·A'ᵀ·dY, and dC = beta·dY summed over the broadcast axes. Stashes A and B.
func gemmRule(c *Ctx) { c.gemmGradients(c.Grad(0)) }

// gemmGradients gives the inputs of a Gemm their gradients, from that of its product and sum.
func (c *Ctx) gemmGradients(g Value) {
	alpha, beta := c.Node.Float("alpha", 1), c.Node.Float("beta", 1)
	if c.Wants(2) {
		bias := c.SumTo(g, c.In(2))
		if beta != 1 {
			bias = c.Mul(bias, c.Scalar(float64(beta), bias))
		}
		c.Set(2, bias)
	}
	c.productGradients(matrixView{c.In(0), c.Node.Int("transA", 0) != 0},
		matrixView{c.In(1), c.Node.Int("transB", 0) != 0}, g, alpha)
}

// productGradients gives inputs 0 and 1, whose product times alpha has the gradient g, theirs.
func (c *Ctx) productGradients(a, b matrixView, g Value, alpha float32) {
	dy := matrixView{g, false}
	if c.Wants(1) {
		left, right := a.T(), dy
		if b.t {
			left, right = dy.T(), a
		}
		if !c.setUntransposed(1, left, right, alpha) {
			c.Set(1, c.SumTo(c.product(left, right, alpha), c.In(1)))
		}
	}
	if c.Wants(0) {
		left, right := dy, b.T()
		if a.t {
			left, right = b, dy.T()
		}
		c.Set(0, c.SumTo(c.product(left, right, alpha), c.In(0)))
	}
}

// fusedGemmRule: Gemm with an activation, with Relu only. Stashes A and B, and the output for Relu.
func fusedGemmRule(c *Ctx) {
	c.gemmGradients(c.beforeActivation(c.Grad(0)))
}

// beforeActivation takes a gradient back through the activation of a fused operator.
func (c *Ctx) beforeActivation(g Value) Value {
	switch name := c.Node.Str("activation", ""); name {
	case "":
		return g
	case "Relu":
		y := c.Out(0)
		return c.Where(c.Op("Greater", nil, y, c.Scalar(0, y)), g, c.Scalar(0, g))
	default:
		c.Unsupported("with the activation %s", name)
	}
	return None
}

// fusedMatMulRule: MatMul of operands that are transposed on demand, times alpha. Stashes A and B.
func fusedMatMulRule(c *Ctx) {
	if c.Node.Int("transBatchA", 0) != 0 || c.Node.Int("transBatchB", 0) != 0 {
		c.Unsupported("with transBatchA or transBatchB")
	}
	if c.Rank(c.In(0)) < 2 || c.Rank(c.In(1)) < 2 {
		c.Unsupported("with an operand of rank 1")
	}
	a := matrixView{c.In(0), c.Node.Int("transA", 0) != 0}
	b := matrixView{c.In(1), c.Node.Int("transB", 0) != 0}
	c.productGradients(a, b, c.Grad(0), c.Node.Float("alpha", 1))
}
