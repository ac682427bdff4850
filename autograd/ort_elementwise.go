package autograd

// scaleRule: y = x*s, or x/s with attribute scale_down, for a scalar s that may have a type of its
// own. x gets g*s or g/s, the scalar the sum of g*x, or of -g*y/s. Stashes s, and for its gradient
// x or y.
func scaleRule(c *Ctx) {
	g, x := c.Grad(0), c.In(0)
	s := c.Cast(c.In(1), c.DType(x))
	down := c.Node.Int("scale_down", 0) != 0
	if c.Wants(1) {
		var t Value
		if down {
			t = c.Neg(c.Div(c.SumTo(c.Mul(g, c.Out(0)), s), s))
		} else {
			t = c.SumTo(c.Mul(g, x), s)
		}
		c.Set(1, c.Cast(t, c.DType(c.In(1))))
	}
	if !c.Wants(0) {
		return
	}
	if down {
		g = c.Div(g, s)
	} else {
		g = c.Mul(g, s)
	}
	c.Set(0, c.SumTo(g, x))
}

// scaledSumRule: every input gets the gradient times its scale. No stash.
func scaledSumRule(c *Ctx) {
	for i, name := range []string{"scale_0", "scale_1", "scale_2"} {
		if c.Wants(i) {
			c.Set(i, c.mathScale(c.Grad(0), float64(c.Node.Float(name, 1))))
		}
	}
}
