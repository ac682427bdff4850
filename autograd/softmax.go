package autograd

// softmaxAxes returns the axes over which a softmax sums: one, or before version 13 all from axis
// on.
func (c *Ctx) softmaxAxes() []int64 {
	rank := c.Rank(c.In(0))
	if c.Version >= 13 {
		return []int64{c.Axis(c.Node.Int("axis", -1), rank)}
	}
	axis := c.Node.Int("axis", 1)
	if axis == int64(rank) {
		return nil // every element is a row of its own
	}
	return axesFrom(c.Axis(axis, rank), int64(rank))
}

// softmaxRule: dX = Y·(dY - Σ dY·Y) over the softmax's axes. Stashes the output.
func softmaxRule(c *Ctx) {
	axes := c.softmaxAxes()
	if len(axes) == 0 {
		c.Set(0, c.Zeros(c.In(0)))
		return
	}
	g, y := c.Grad(0), c.Out(0)
	c.Set(0, c.Mul(c.Sub(g, c.ReduceSum(c.Mul(g, y), true, axes...)), y))
}

// logSoftmaxRule: dX = dY - exp(Y)·Σ dY over the softmax's axes. Stashes the output.
func logSoftmaxRule(c *Ctx) {
	axes := c.softmaxAxes()
	if len(axes) == 0 {
		c.Set(0, c.Zeros(c.In(0)))
		return
	}
	g, y := c.Grad(0), c.Out(0)
	sum := c.ReduceSum(g, true, axes...)
	c.Set(0, c.Sub(g, c.Mul(c.Op("Exp", nil, y), sum)))
}
