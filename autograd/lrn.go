package autograd

// lrnRule: Y = X·d^-β with d = bias + α·(the mean of X² in a window of channels) gives
//
//	dX = dY·d^-β - 2αβ·X·(the mean of dY·X·d^(-β-1) in the mirrored window)
//
// The window slides as an average pool over the axis of channels. Stashes X.
func lrnRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	rank := c.Rank(x)
	if rank > 4 {
		c.Unsupported("with rank %d", rank)
	}
	size := c.Node.Int("size", 1)
	alpha, beta, bias := float64(c.Node.Float("alpha", 1e-4)), float64(c.Node.Float("beta", 0.75)),
		float64(c.Node.Float("bias", 1))
	before, after := (size-1)/2, size-1-(size-1)/2
	d := c.mathScale(c.channelMeans(c.Mul(x, x), size, before, after), alpha)
	d = c.Add(d, c.Scalar(bias, d))
	direct := c.Mul(g, c.Op("Pow", nil, d, c.Scalar(-beta, d)))
	around := c.channelMeans(c.Div(c.Mul(direct, x), d), size, after, before)
	c.Set(0, c.Sub(direct, c.Mul(x, c.mathScale(around, 2*alpha*beta))))
}

// channelMeans averages windows over axis 1, counting places outside it as zeros.
func (c *Ctx) channelMeans(v Value, size, before, after int64) Value {
	spatial := c.Rank(v) - 1
	kernel, pads := make([]int64, spatial), make([]int64, 2*spatial)
	for i := range kernel {
		kernel[i] = 1
	}
	kernel[0], pads[0], pads[spatial] = size, before, after
	pool := c.Op("AveragePool", Attrs{A("count_include_pad", int64(1)), A("kernel_shape", kernel), A("pads", pads)},
		c.Unsqueeze(v, 1))
	return c.Squeeze(pool, 1)
}
