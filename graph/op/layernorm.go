package op

import (
	"memopt/graph"
)

// normFLOPs is the convention for norms: about eight operations per element of the input (mean,
// variance, two for normalising, scale, shift, and their rounding up).
var normFLOPs = perElement(8, 0)

// normAxis reads the attribute axis, -1 where it is absent; ok is false for an unknown rank.
func (c *Ctx) normAxis() (axis int, ok bool) {
	s := c.Shape(0)
	if !s.Ranked || !c.rankFrom(0, 1) {
		return 0, false
	}
	return c.Axis("attribute axis", c.Int("axis", -1), len(s.Dims))
}

// stats returns the type of the statistics: of type stash_type, float where it is not said.
func (c *Ctx) stats() graph.Type {
	axis, ok := c.normAxis()
	t := graph.Tensor(c.DTypeAttr("stash_type", graph.Float32), graph.Shape{})
	if ok {
		t.Shape = statsShape(c.Shape(0), axis)
	}
	return t
}

// normOperand checks that scale or bias can be stretched to the normalised axes.
func (c *Ctx) normOperand(what string, i int) {
	if c.Has(i) {
		c.broadcastTo(what, c.Shape(i), c.Shape(0))
	}
}

// layerNormalizationRule: X, scale, bias give Y, mean and inverse deviation. In version 1, which is
// ONNX Runtime's own, Y has the type of the scale.
func layerNormalizationRule(c *Ctx) {
	c.normOperand("the scale", 1)
	c.normOperand("the bias", 2)
	stats := c.stats()
	if c.Failed() {
		return
	}
	y := c.In(0)
	if d := c.DType(1); c.Version == 1 && d != graph.Undefined {
		y = graph.Tensor(d, c.Shape(0))
	}
	c.Out(0, y)
	c.Out(1, stats)
	c.Out(2, stats)
}

// rmsNormalizationRule: Y has the type of the scale.
func rmsNormalizationRule(c *Ctx) {
	c.normOperand("the scale", 1)
	if c.normAxis(); !c.Failed() {
		c.OutTensor(0, c.DType(1), c.Shape(0))
	}
}
