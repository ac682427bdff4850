package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// poolRule: X [N, C, d…] gives Y [N, C, d'…]; MaxPool may also give the indices of its choices.
func poolRule(c *Ctx) {
	spatial, ok := c.spatialRank(0, -1)
	if c.Failed() {
		return
	}
	out := graph.Shape{}
	if ok {
		w, ok := c.window(0, -1, spatial)
		if !ok {
			return
		}
		out = w.slideAll(c, dimAt(c.Shape(0), 1))
	}
	c.OutTensor(0, c.DType(0), out)
	if len(c.Node.Outputs) > 1 {
		c.OutTensor(1, graph.Int64, out)
	}
}

// poolFLOPs: one operation per element under each place of the window.
func poolFLOPs(c *Ctx) symbolic.Expr {
	kernel := symbolic.Const(1)
	for _, k := range c.listAttr("kernel_shape") {
		kernel = kernel.Mul(symbolic.Const(k))
	}
	return c.OutType(0).Shape.Elements().Mul(kernel)
}

// globalPoolRule: every spatial axis shrinks to 1.
func globalPoolRule(c *Ctx) {
	s := c.Shape(0)
	if !s.Ranked {
		c.OutTensor(0, c.DType(0), s)
		return
	}
	if !c.rankFrom(0, 2) {
		return
	}
	out := graph.Dims(append([]symbolic.Expr(nil), s.Dims...)...)
	for i := 2; i < len(out.Dims); i++ {
		out.Dims[i] = symbolic.Const(1)
	}
	c.OutTensor(0, c.DType(0), out)
}

// maxUnpoolRule inverts MaxPool: d' = stride·(d-1) + kernel - begin - end, unless input 2 states
// the whole output shape.
func maxUnpoolRule(c *Ctx) {
	spatial, ok := c.spatialRank(0, -1)
	if c.Failed() {
		return
	}
	if c.Has(2) {
		out := c.shapeOperand(2)
		if !c.Failed() {
			c.OutTensor(0, c.DType(0), out)
		}
		return
	}
	if !ok {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	w, ok := c.window(0, -1, spatial)
	if !ok {
		return
	}
	out := graph.UnknownDims(spatial + 2)
	out.Dims[0], out.Dims[1] = dimAt(c.Shape(0), 0), dimAt(c.Shape(0), 1)
	for i := range spatial {
		out.Dims[2+i] = w.spread(c, i, dimAt(c.Shape(0), 2+i), 0)
	}
	c.OutTensor(0, c.DType(0), out)
}

// maxPoolGradRule: inputs dY and the indices. The size of X is in neither of them.
func maxPoolGradRule(c *Ctx) {
	s := c.Shape(0)
	if s.Ranked && len(s.Dims) > 2 {
		out := graph.UnknownDims(len(s.Dims))
		out.Dims[0], out.Dims[1] = s.Dims[0], s.Dims[1]
		s = out
	}
	c.OutTensor(0, c.DType(0), s)
}
