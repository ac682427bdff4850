package autograd

import "math"

// geluRule: y = x*Φ(x), or its approximation by tanh. Stashes x.
func geluRule(c *Ctx) {
	slope := c.geluSlope
	if c.Node.Str("approximate", "none") == "tanh" {
		slope = c.geluTanhSlope
	}
	c.Set(0, c.Mul(c.Grad(0), slope(c.In(0))))
}

// geluMSRule is geluRule for ONNX Runtime's operator, which is exact.
func geluMSRule(c *Ctx) { c.Set(0, c.Mul(c.Grad(0), c.geluSlope(c.In(0)))) }

// biasGeluRule: y = gelu(x + bias). Stashes x and the bias, and makes the sum again.
func biasGeluRule(c *Ctx) { biasedGelu(c, c.geluSlope) }

// fastGeluRule: y = gelu(x + bias) approximated by tanh, with or without a bias. Stashes x and the
// bias.
func fastGeluRule(c *Ctx) { biasedGelu(c, c.geluTanhSlope) }

func biasedGelu(c *Ctx, slope func(Value) Value) {
	x := c.In(0)
	if c.Has(1) {
		x = c.Add(x, c.In(1))
	}
	g := c.Mul(c.Grad(0), slope(x))
	if c.Wants(1) {
		c.Set(1, c.SumTo(g, c.In(1)))
	}
	c.Set(0, g)
}

// geluSlope returns Φ(x) + x*φ(x). With s = x/√2 that is (1 + erf(s) + 2/√π * s * e^(-s²)) / 2.
func (e *emitter) geluSlope(x Value) Value {
	s := e.mathScale(x, math.Sqrt2/2)
	return e.geluSlopeOf(s, e.mathOf("Erf", s))
}

func (e *emitter) geluSlopeOf(s, erf Value) Value {
	bell := e.mathOf("Exp", e.Neg(e.Mul(s, s)))
	rest := e.mathScale(e.Mul(s, bell), 2/math.SqrtPi)
	return e.mathScale(e.Op("Sum", nil, erf, rest, e.Scalar(1, s)), 0.5)
}

// geluTanhSlope returns the slope of x/2 * (1 + tanh(u)) with u = √(2/π) * (x + 0.044715x³). The
// half of 1 + tanh(u) is s = sigmoid(2u), and the slope is s + s*(1-s)*x*2u'.
func (e *emitter) geluTanhSlope(x Value) Value {
	const linear, cubic = 2 * 0.7978845608028654, 2 * 0.7978845608028654 * 0.044715
	square := e.Mul(x, x)
	s := e.mathOf("Sigmoid", e.Mul(x, e.mathShift(e.mathScale(square, cubic), linear)))
	inner := e.mathShift(e.mathScale(square, 3*cubic), linear)
	// (1-s)*x first: it vanishes where x is so large that the other factor may overflow.
	rest := e.Mul(e.Mul(e.mathFromOne(s), x), inner)
	return e.Mul(s, e.mathShift(rest, 1))
}

// biasSplitGeluRule: with x + bias = [l, r], the halves of the last dim, y = l * gelu(r). The
// gradients are g*gelu(r) and g*l*gelu'(r). Stashes x and the bias.
func biasSplitGeluRule(c *Ctx) {
	g, attrs := c.Grad(0), Attrs{A("axis", int64(-1))}
	if c.j.opset() >= 18 {
		attrs = append(attrs, A("num_outputs", int64(2)))
	}
	halves := c.Ops("Split", 2, attrs, c.Add(c.In(0), c.In(1)))
	l, r := halves[0], halves[1]
	s := c.mathScale(r, math.Sqrt2/2)
	erf := c.mathOf("Erf", s)
	left := c.Mul(g, c.Mul(r, c.mathScale(c.mathShift(erf, 1), 0.5)))
	right := c.Mul(g, c.Mul(l, c.geluSlopeOf(s, erf)))
	both := c.Concat(-1, left, right)
	if c.Wants(1) {
		c.Set(1, c.SumTo(both, c.In(1)))
	}
	c.Set(0, both)
}
