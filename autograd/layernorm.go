package autograd

import "memopt/graph"

// layerNormalizationRule: with x̂ = (X - mean)·inv and ḡ = dY·scale,
//
//	dX = inv·(ḡ - mean(ḡ) - x̂·mean(ḡ·x̂)),  dscale = Σ dY·x̂,  dbias = Σ dY
//
// with means over the normalised axes. Stashes X and the outputs mean and inverse deviation, which
// are small. 16-bit values are converted to float32.
func layerNormalizationRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	if g == None {
		g = c.Zeros(x) // the statistics alone have gradients
	}
	rank := c.Rank(x)
	axes := axesFrom(c.Axis(c.Node.Int("axis", -1), rank), int64(rank))
	d := c.normType(x)
	if c.Wants(2) {
		c.Set(2, c.SumTo(g, c.In(2)))
	}
	if !c.Wants(0) && !c.Wants(1) {
		return
	}
	inv := c.Cast(c.Out(2), d)
	hat := c.Mul(c.Sub(c.Cast(x, d), c.Cast(c.Out(1), d)), inv)
	c.normScale(g, hat, d)
	if c.Wants(0) {
		dx := c.normData(hat, inv, c.Mul(c.Cast(g, d), c.Cast(c.In(1), d)), true, axes)
		c.Set(0, c.Cast(c.statisticGradients(dx, hat, inv, x, axes), c.DType(x)))
	}
}

// statisticGradients adds the gradients that x gets through the outputs mean and inverse deviation:
// mean' = 1/n, inv' = -inv²·x̂/n.
func (c *Ctx) statisticGradients(dx, hat, inv, x Value, axes []int64) Value {
	d := c.DType(dx)
	if m := c.Grad(1); m != None {
		dx = c.Add(dx, c.overCount(c.Cast(m, d), x, axes...))
	}
	return c.deviationGradient(dx, c.Grad(2), hat, inv, x, axes)
}

// deviationGradient adds the gradient that x gets through the inverse deviation, whose gradient is
// g.
func (c *Ctx) deviationGradient(dx, g, hat, inv, x Value, axes []int64) Value {
	if g == None {
		return dx
	}
	scaled := c.Mul(c.overCount(c.Cast(g, c.DType(dx)), x, axes...), c.Mul(inv, inv))
	return c.Sub(dx, c.Mul(scaled, hat))
}

// normScale gives the scale, input 1, its gradient.
func (c *Ctx) normScale(g, hat Value, d graph.DType) {
	if c.Wants(1) {
		scale := c.In(1)
		c.Set(1, c.Cast(c.SumTo(c.Mul(c.Cast(g, d), hat), scale), c.DType(scale)))
	}
}

// normData takes the gradient g of x̂ back to x. centred says that the mean was subtracted as well.
func (c *Ctx) normData(hat, inv, g Value, centred bool, axes []int64) Value {
	along := c.Mul(hat, c.meanOver(c.Mul(g, hat), axes...))
	if centred {
		g = c.Sub(g, c.meanOver(g, axes...))
	}
	return c.Mul(c.Sub(g, along), inv)
}

// simplifiedLayerNormalizationRule: layerNormalizationRule without the mean. Stashes X and the
// output that is the inverse root of the mean square, which is small.
func simplifiedLayerNormalizationRule(c *Ctx) {
	c.rmsGradients(func(Value, []int64) Value { return c.Out(1) })
}

// rmsNormalizationRule: the same where the node has no such output. Stashes X, and recomputes the
// root.
func rmsNormalizationRule(c *Ctx) {
	c.rmsGradients(func(x Value, axes []int64) Value {
		return c.inverseDeviation(c.meanSquare(x, c.countOver(x, x, axes...), axes),
			float64(c.Node.Float("epsilon", 1e-5)))
	})
}

func (c *Ctx) rmsGradients(inverse func(x Value, axes []int64) Value) {
	rank := c.Rank(c.In(0))
	axes := axesFrom(c.Axis(c.Node.Int("axis", -1), rank), int64(rank))
	d := c.normType(c.In(0))
	x := c.Cast(c.In(0), d)
	inv := c.Cast(inverse(x, axes), d)
	hat := c.Mul(x, inv)
	g := c.Grad(0)
	if g == None {
		g = c.Zeros(c.In(0)) // the inverse root alone has a gradient
	}
	c.normScale(g, hat, d)
	if c.Wants(0) {
		dx := c.normData(hat, inv, c.Mul(c.Cast(g, d), c.Cast(c.In(1), d)), false, axes)
		c.Set(0, c.Cast(c.deviationGradient(dx, c.Grad(1), hat, inv, x, axes), c.DType(c.In(0))))
	}
}

// meanSquare averages squares, n at a time, without a tensor of them.
func (c *Ctx) meanSquare(x, n Value, axes []int64) Value {
	return c.Div(c.Reduce("ReduceSumSquare", x, true, axes...), n)
}

// statistics returns x less its mean over the axes, and the inverse deviation, n being the number
// of elements that they are of.
func (c *Ctx) statistics(x, n Value, axes []int64) (off, inv Value) {
	off = c.Sub(x, c.meanOver(x, axes...))
	return off, c.inverseDeviation(c.meanSquare(off, n, axes), float64(c.Node.Float("epsilon", 1e-5)))
}
