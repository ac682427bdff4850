package autograd

// dropoutRule: dX is dY/(1-ratio) where the mask keeps, else zero; dY without training mode or with
// a ratio of 0. Stashes the mask, a bool per element, which is made an output if it is not one.
func dropoutRule(c *Ctx) {
	g := c.Grad(0)
	if c.Version < 7 && c.Node.Int("is_test", 0) == 0 {
		c.Unsupported("in training mode before operator set 7, where the mask has the type of the data")
	}
	if g == None || c.neverTrains() || c.dropsNothing() && !c.Wants(1) {
		c.Set(0, g)
		c.Set(1, None)
		return
	}
	if c.Wants(1) {
		c.Set(1, c.dropoutRatio())
	}
	if !c.Wants(0) {
		return
	}
	_, known := c.knownBool(c.In(2))
	ratio, fixed := 0.5, !c.Has(1)
	if c.Has(1) {
		ratio, fixed = c.mathConstant(c.In(1))
	}
	c.Set(0, c.Where(c.Out(1), c.dropoutScaled(g, ratio, fixed, known), c.Scalar(0, g)))
}

// dropoutRatio is the gradient of the ratio r: which elements are dropped is constant between jumps, and
// those that are kept are X/(1-r), so that it is Σ dY·Y/(1-r), and 0 where input 2 is false.
func (c *Ctx) dropoutRatio() Value {
	sum := c.sumOf(c.Mul(c.Grad(0), c.Out(0)))
	ratio := c.Cast(c.In(1), c.DType(sum))
	sum = c.Div(sum, c.Sub(c.Scalar(1, sum), c.reshapeBack(ratio, sum)))
	if _, known := c.knownBool(c.In(2)); !known {
		sum = c.mathIf(c.reshapeBack(c.In(2), sum), sum)
	}
	return c.Cast(c.reshapeBack(sum, c.In(1)), c.DType(c.In(1)))
}

// neverTrains reports whether a Dropout is known not to be in training mode and so returns its
// input whatever the ratio is. Without input 2 it is not.
func (c *Ctx) neverTrains() bool {
	if c.Version < 12 {
		return c.Version >= 7 || c.Node.Int("is_test", 0) != 0
	}
	if !c.Has(2) {
		return true
	}
	training, known := c.knownBool(c.Node.Input(2))
	return known && !training
}

// dropsNothing reports whether a Dropout is known to give its input: it does not train, or its
// ratio is 0.
func (c *Ctx) dropsNothing() bool {
	if c.neverTrains() {
		return true
	}
	if !c.Has(1) {
		return false
	}
	ratio, fixed := c.mathConstant(c.Node.Input(1))
	return fixed && ratio == 0
}

// dropoutScaled divides by 1-ratio, if the node trains. Dropped elements need not be finite: a
// ratio of 1 drops all.
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

// expandBiasDropout: the sum of data and bias, dropped out, plus a residual.
func expandBiasDropout(c *Ctx) []Value {
	out := c.plainDropout(c.Add(c.In(0), c.In(1)), 3)
	if c.Has(2) {
		out[0] = c.Add(out[0], c.In(2))
	}
	return out
}

// expandBitmaskBiasDropout: the same with a mask of packed bits, which cannot be made here.
func expandBitmaskBiasDropout(c *Ctx) []Value { return expandBiasDropout(c)[:1] }

// expandBitmaskDropout: a Dropout with a mask of packed bits, which cannot be made here.
func expandBitmaskDropout(c *Ctx) []Value { return c.plainDropout(c.In(0), 1)[:1] }

// plainDropout emits a Dropout with its result and its mask; ratio is the input slot of the ratio,
// which the mode follows.
func (c *Ctx) plainDropout(v Value, ratio int) []Value {
	c.Need(12)
	var attrs Attrs
	if a := c.Node.Attr("seed"); a != nil {
		attrs = Attrs{A("seed", a.Value)}
	}
	out := c.Ops("Dropout", 2, attrs, v, c.In(ratio), c.In(ratio+1))
	return []Value{out[0], out[1]}
}
