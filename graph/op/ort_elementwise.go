package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// biasElementwiseRule: data of any shape and a vector as long as its last dim; the result is like
// the data. BiasGelu and FastGelu have such a bias.
func biasElementwiseRule(c *Ctx) {
	c.lastDimOperand("the bias", 1)
	c.Out(0, c.In(0))
}

// lastDimOperand checks that input i, if given, is a vector as long as the last dim of input 0.
func (c *Ctx) lastDimOperand(what string, i int) {
	if c.Has(i) && c.wantRank(i, 1) {
		c.Unify("the last dim of input 0 and the length of "+what, dimAt(c.Shape(0), -1), dimAt(c.Shape(i), 0))
	}
}

// biasGeluGradRule: inputs dY, X and the bias; the gradient of X.
func biasGeluGradRule(c *Ctx) {
	c.lastDimOperand("the bias", 2)
	c.Out(0, c.gradOf(0, 1))
}

// gradOf returns the type that a gradient shares with its value: both have one shape, and either
// operand may know more of it.
func (c *Ctx) gradOf(grad, value int) graph.Type {
	t, v := c.In(grad), c.Shape(value)
	if !t.Shape.Ranked {
		t.Shape = v
		if t.Form == graph.FormUnknown {
			return c.In(value)
		}
		return t
	}
	if !v.Ranked {
		return t
	}
	if len(v.Dims) != len(t.Shape.Dims) {
		c.Errorf("input %d has shape %v and input %d %v; they must be equal", grad, t.Shape, value, v)
		return t
	}
	out := graph.UnknownDims(len(v.Dims))
	for i := range out.Dims {
		out.Dims[i] = c.Unify("a dim of the gradient and its value", t.Shape.Dims[i], v.Dims[i])
	}
	t.Shape = out
	return t
}

// elementwiseGradRule: the gradient of the result, and the operand or the result; the gradient of
// the operand.
func elementwiseGradRule(c *Ctx) { c.Out(0, c.gradOf(0, 1)) }

// divGradRule: inputs dY, A, B; the gradients of A and B.
func divGradRule(c *Ctx) {
	c.Broadcast(1, 2)
	c.OutTensor(0, c.DType(0), c.Shape(1))
	c.OutTensor(1, c.DType(0), c.Shape(2))
}

// boolLikeRule: a bool for each element.
func boolLikeRule(c *Ctx) { c.OutTensor(0, graph.Bool, c.Shape(0)) }

// boolScalarRule: one bool for all inputs.
func boolScalarRule(c *Ctx) { c.OutTensor(0, graph.Bool, graph.Dims()) }

// reduceAllL2Rule: the norm of all inputs together, of their type where that is float or double;
// half precision may be summed up in float.
func reduceAllL2Rule(c *Ctx) {
	d := c.DType(0)
	if d != graph.Float32 && d != graph.Float64 {
		d = graph.Undefined
	}
	c.OutTensor(0, d, graph.Dims())
}

// eachRule: output i like input i.
func eachRule(c *Ctx) {
	if len(c.Node.Inputs) != len(c.Node.Outputs) {
		c.Errorf("has %d inputs and %d outputs, wanted as many of each", len(c.Node.Inputs), len(c.Node.Outputs))
		return
	}
	for i := range c.Node.Inputs {
		c.Out(i, c.In(i))
	}
}

// scaleRule: data, and the scalar that multiplies or divides them.
func scaleRule(c *Ctx) {
	c.wantScalar(1)
	c.Out(0, c.In(0))
}

// scaledSumRule: up to three operands of one shape.
func scaledSumRule(c *Ctx) {
	t := c.gradOf(0, 1)
	if c.Has(2) {
		c.gradOf(0, 2)
	}
	c.Out(0, t)
}

// allInputsFLOPs: a product and a sum per element of every input.
func allInputsFLOPs(c *Ctx) symbolic.Expr {
	total := symbolic.Const(0)
	for i := range c.Node.Inputs {
		total = total.Add(c.Shape(i).Elements())
	}
	return total.Mul(symbolic.Const(2))
}
