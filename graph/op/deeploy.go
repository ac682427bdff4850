package op

import "memopt/symbolic"

// batchedGemmRule: Y = alpha*A'*B' + beta*C for stacks of matrices, at least one with more than two
// dims; the dims before the last two are broadcast.
func batchedGemmRule(c *Ctx) {
	c.want(0, floats)
	dtype := c.sameTypes(0, 1, 2)
	if !c.rankFrom(0, 2) || !c.rankFrom(1, 2) {
		return
	}
	a := turned(c.Shape(0), false, c.Int("transA", 0) != 0)
	b := turned(c.Shape(1), false, c.Int("transB", 0) != 0)
	if a.Ranked && b.Ranked && len(a.Dims) == 2 && len(b.Dims) == 2 {
		c.Errorf("inputs 0 and 1 have shapes %v and %v, wanted one of rank 3 or more", c.Shape(0), c.Shape(1))
	}
	out := c.MatMulShape(a, b)
	if c.Failed() {
		return
	}
	if c.Has(2) {
		c.broadcastTo("input 2", c.Shape(2), out)
	}
	c.OutTensor(0, dtype, out)
}

// batchedGemmFLOPs is 2*K per element of Y; the bias is left out.
func batchedGemmFLOPs(c *Ctx) symbolic.Expr {
	a := turned(c.Shape(0), false, c.Int("transA", 0) != 0)
	if len(a.Dims) == 0 {
		return symbolic.Unknown()
	}
	return symbolic.Const(2).Mul(c.OutElements(0)).Mul(a.Dims[len(a.Dims)-1])
}

// layerNormGradDeeployRule: the inputs are the output's gradient, the input, the scale and perhaps
// a bias, which no output depends on; the outputs are the gradient of the input and, where the node
// asks for them, of scale and bias. There are no statistics.
func layerNormGradDeeployRule(c *Ctx) {
	x := c.gradOf(0, 1)
	scale := c.In(2)
	if c.Has(3) {
		c.sameTypes(2, 3)
		for i, d := range c.Shape(3).Dims {
			c.Unify("a dim of scale and bias", dimAt(scale.Shape, i), d)
		}
	}
	if !c.Failed() {
		c.Out(0, x)
		c.Out(1, scale)
		c.Out(2, scale)
	}
}

// sgdDeeployRule: the weights and their gradient give the updated weights, by the attribute lr.
func sgdDeeployRule(c *Ctx) {
	if c.Node.Attr("lr") == nil {
		c.Errorf("lacks the attribute %q, a float", "lr")
	}
	c.Float("lr", 0)
	if w := c.gradOf(1, 0); !c.Failed() {
		c.Out(0, w)
	}
}

// logProbLossRule: scores and labels give the log-probabilities, and no loss.
func logProbLossRule(c *Ctx) {
	c.lossShape(0, 1, -1)
	if !c.Failed() {
		c.Out(0, c.In(0))
	}
}

// unitLossGradRule: log-probabilities and labels give the gradient of the scores for a gradient of
// the loss of 1.
func unitLossGradRule(c *Ctx) {
	c.lossShape(0, 1, -1)
	if !c.Failed() {
		c.Out(0, c.In(0))
	}
}
