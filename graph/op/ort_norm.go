package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// simplifiedLayerNormalizationRule: X and scale give Y, of the scale's type, and the inverse
// deviation.
func simplifiedLayerNormalizationRule(c *Ctx) {
	c.normOperand("the scale", 1)
	stats := c.stats()
	if c.Failed() {
		return
	}
	y := c.In(0)
	if d := c.DType(1); d != graph.Undefined {
		y = graph.Tensor(d, c.Shape(0))
	}
	c.Out(0, y)
	c.Out(1, stats)
}

// skipLayerNormalizationRule: input, skip, scale … give the norm of the sum, float statistics
// (mean and inverse deviation) and the sum itself.
func skipLayerNormalizationRule(c *Ctx) {
	if !c.rankIn(0, 2, 3) || !c.rankFrom(1, 1) || !c.wantRank(2, 1) {
		return
	}
	s := c.Shape(0)
	c.broadcastTo("the skip", c.Shape(1), s)
	c.Unify("the last dim of input 0 and the length of the scale", dimAt(s, -1), dimAt(c.Shape(2), 0))
	stats := graph.Tensor(graph.Float32, statsShape(s, len(s.Dims)-1))
	c.Out(0, c.In(0))
	c.Out(1, stats)
	c.Out(2, stats)
	c.Out(3, c.In(0))
}

// embedLayerNormalizationRule: inputs are ids, segment ids, the three tables, scale, bias, mask
// and positions; outputs the norm of the summed embeddings, the mask's index, and the sum.
func embedLayerNormalizationRule(c *Ctx) {
	if !c.wantRank(0, 2) || !c.wantRank(2, 2) || !c.wantRank(3, 2) {
		return
	}
	ids := c.Shape(0)
	t := graph.Tensor(c.DType(2), graph.Dims(dimAt(ids, 0), dimAt(ids, 1), dimAt(c.Shape(2), 1)))
	c.Out(0, t)
	c.OutTensor(1, graph.Int32, graph.Dims(dimAt(ids, 0)))
	c.Out(2, t)
}

// batchNormInternalRule: the training form of BatchNormalization, which also gives the batch's mean
// and inverse deviation for the gradient.
func batchNormInternalRule(c *Ctx) {
	if !c.rankFrom(0, 1) {
		return
	}
	channels := dimAt(c.Shape(0), 1)
	for i := 1; i < 5; i++ {
		if !c.wantRank(i, 1) {
			return
		}
		channels = c.Unify("the number of channels", channels, dimAt(c.Shape(i), 0))
	}
	c.Out(0, c.In(0))
	for k := 1; k < 5; k++ {
		c.OutTensor(k, c.DType(3), graph.Dims(channels))
	}
}

// groupNormRule: X [N, H, W, C], channels last, and two vectors [C].
func groupNormRule(c *Ctx) {
	if !c.wantRank(0, 4) || !c.wantRank(1, 1) || !c.wantRank(2, 1) {
		return
	}
	groups := c.NeedInt("groups")
	if c.Failed() {
		return
	}
	c.divided("the number of channels", dimAt(c.Shape(0), 3), groups)
	c.lastDimOperand("the scale", 1)
	c.lastDimOperand("the bias", 2)
	c.Out(0, c.In(0))
}

// biasAddRule: X [N, S, C], bias [C] and skip.
func biasAddRule(c *Ctx) {
	c.lastDimOperand("the bias", 1)
	c.Out(0, c.gradOf(0, 2))
}

// biasSplitGeluRule: the last dim is split into two halves; one gates the other.
func biasSplitGeluRule(c *Ctx) {
	if !c.wantRank(0, 3) {
		return
	}
	c.lastDimOperand("the bias", 1)
	s := c.Shape(0)
	half := c.divided("the last dim of input 0", dimAt(s, 2), 2)
	c.OutTensor(0, c.DType(0), graph.Dims(dimAt(s, 0), dimAt(s, 1), half))
}

// normGradFLOPs: a norm's gradient reads the input twice and keeps three sums.
func normGradFLOPs(c *Ctx) symbolic.Expr { return c.Shape(1).Elements().Mul(symbolic.Const(14)) }

// embedFLOPs: two sums and a norm for each element of the output.
func embedFLOPs(c *Ctx) symbolic.Expr { return c.OutElements(0).Mul(symbolic.Const(10)) }
