package op

import "memopt/graph"

// quantizeLinearRule: y has the shape of x and the type of the zero point, else of the attribute
// output_dtype, else uint8.
func quantizeLinearRule(c *Ctx) {
	dtype := graph.Uint8
	if d := graph.DType(c.Int("output_dtype", 0)); c.Version >= 21 && d != graph.Undefined {
		dtype = c.DTypeAttr("output_dtype", dtype)
	}
	if c.Has(2) {
		dtype = c.DType(2)
	}
	if c.quantAxis(); !c.Failed() {
		c.OutTensor(0, dtype, c.Shape(0))
	}
}

// dequantizeLinearRule: y has the shape of x and, from version 19 on, the type of the scale;
// output_dtype overrides it from 23 on.
func dequantizeLinearRule(c *Ctx) {
	dtype := graph.Float32
	if c.Version >= 19 {
		dtype = c.DType(1)
	}
	if c.Version >= 23 && c.Int("output_dtype", 0) != 0 {
		dtype = c.DTypeAttr("output_dtype", dtype)
	}
	if c.quantAxis(); !c.Failed() {
		c.OutTensor(0, dtype, c.Shape(0))
	}
}

// quantAxis checks the axis of scales that are more than one number, and their length.
func (c *Ctx) quantAxis() {
	s, scale := c.Shape(0), c.Shape(1)
	if c.Version < 13 || !s.Ranked || scale.Rank() != 1 {
		return
	}
	if n, ok := scale.Dims[0].Const(); ok && n == 1 {
		return
	}
	axis, ok := c.Axis("attribute axis", c.Int("axis", 1), len(s.Dims))
	if ok && c.Int("block_size", 0) == 0 {
		c.Unify("the number of scales and the dim of the axis", scale.Dims[0], s.Dims[axis])
	}
}

// dynamicQuantizeLinearRule: y uint8 like x, its scale and its zero point.
func dynamicQuantizeLinearRule(c *Ctx) {
	c.OutTensor(0, graph.Uint8, c.Shape(0))
	c.OutTensor(1, graph.Float32, graph.Dims())
	c.OutTensor(2, graph.Uint8, graph.Dims())
}

// matMulIntegerRule: the product of A and B as int32.
func matMulIntegerRule(c *Ctx) {
	if s := c.MatMulShape(c.Shape(0), c.Shape(1)); !c.Failed() {
		c.OutTensor(0, graph.Int32, s)
	}
}

// qLinearMatMulRule: inputs a, its scale and zero point, b, its scale and zero point, y's scale
// and zero point, whose type y has.
func qLinearMatMulRule(c *Ctx) {
	if s := c.MatMulShape(c.Shape(0), c.Shape(3)); !c.Failed() {
		c.OutTensor(0, c.DType(7), s)
	}
}
