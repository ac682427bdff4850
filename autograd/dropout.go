package autograd

// dropoutRule: dX is dY/(1-ratio) where the mask keeps, else zero; dY without training mode or with a
// ratio of 0. Stashes the mask, a bool per element, which is made an output if it was none.
func dropoutRule(c *Ctx) {
	g := c.Grad(0)
	if c.Version < 7 && c.Node.Int("is_test", 0) == 0 {
		c.Unsupported("in training mode before operator set 7, where the mask has the type of the data")
	}
	if g == None || c.Version < 12 || !c.Has(2) {
		c.Set(0, g)
		return
	}
	training, known := c.KnownBool(c.In(2))
	if known && !training {
		c.Set(0, g)
		return
	}
	ratio, fixed := 0.5, !c.Has(1)
	if c.Has(1) {
		ratio, fixed = c.KnownFloat(c.In(1))
	}
	if fixed && ratio == 0 {
		c.Set(0, g)
		return
	}
	c.Set(0, c.Where(c.Out(1), c.dropoutScaled(g, ratio, fixed, known), c.Scalar(0, g)))
}

// dropoutScaled divides by 1-ratio, if the node trains. What is dropped need not be finite here: a ratio
// of 1 drops all.
func (c *Ctx) dropoutScaled(g Value, ratio float64, fixed, trains bool) Value {
	one := c.Scalar(1, g)
	var scale Value
	switch {
	case fixed && ratio < 1:
		scale = c.Scalar(1/(1-ratio), g)
	case fixed:
		scale = one
	default:
		scale = c.Div(one, c.Sub(one, c.Cast(c.In(1), c.DType(g))))
	}
	if !trains {
		scale = c.Where(c.In(2), scale, one)
	}
	return c.Mul(g, scale)
}
