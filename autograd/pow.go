package autograd

// powRule: y = x^e. The base gets g * e * x^(e-1), and 0 where e is 0; the exponent gets g * y *
// log(x), and 0 where x is 0 and e is not negative. The exponent may have another type than the
// base, and is constant in most models. Stashes x and e; x alone for a constant e, or y alone where
// e is 1/2 or -1; for the exponent's gradient y as well.
func powRule(c *Ctx) {
	numpyBroadcast(c)
	x, e := c.In(0), c.In(1)
	if c.Wants(1) {
		c.Set(1, c.Cast(c.SumTo(powExponent(c), e), c.DType(e)))
	}
	if !c.Wants(0) {
		return
	}
	if n, ok := c.mathConstant(e); ok {
		powConstant(c, n)
		return
	}
	c.Set(0, c.SumTo(powBase(c), x))
}

// powConstant sets the gradient of the base for the exponent n.
func powConstant(c *Ctx, n float64) {
	x, g := c.In(0), c.mathScale(c.Grad(0), n)
	switch n {
	case 0:
		c.Set(0, c.Zeros(x))
		return
	case 1:
	case 2:
		g = c.Mul(g, x)
	case 3:
		g = c.Mul(g, c.Mul(x, x))
	case 0.5:
		g = c.Div(g, c.Out(0))
	case -1:
		g = c.Mul(g, c.Mul(c.Out(0), c.Out(0)))
	default:
		g = c.Mul(g, c.Op("Pow", nil, x, c.Scalar(n-1, x)))
	}
	c.Set(0, c.SumTo(g, x))
}

// powBase returns the gradient of the base before it is summed up.
func powBase(c *Ctx) Value {
	x := c.In(0)
	e := c.Cast(c.In(1), c.DType(x))
	slope := c.Mul(e, c.Op("Pow", nil, x, c.mathShift(e, -1)))
	none := c.mathEqual(e, c.Scalar(0, e))
	return c.mathUnless(none, c.Mul(c.Grad(0), slope))
}

// powExponent returns the gradient of the exponent before it is summed up.
func powExponent(c *Ctx) Value {
	x, e := c.In(0), c.In(1)
	none := c.mathEqual(x, c.Scalar(0, x))
	if n, ok := c.mathConstant(e); !ok || n < 0 {
		none = c.Op("And", nil, none, c.mathOf("Not", c.mathBelow(e, 0)))
	}
	slope := c.Mul(c.Out(0), c.mathOf("Log", x))
	return c.Mul(c.Grad(0), c.mathUnless(none, slope))
}
