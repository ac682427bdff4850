package autograd

// instanceNormalizationRule: as layerNormalizationRule, over the spatial axes, with a scale and a
// bias per channel. Stashes X, and recomputes the statistics.
func instanceNormalizationRule(c *Ctx) {
	rank := c.Rank(c.In(0))
	d := c.normType(c.In(0))
	g := c.Cast(c.Grad(0), d)
	c.channelBiasCast(g)
	if !c.Wants(0) && !c.Wants(1) {
		return
	}
	axes := axesFrom(2, int64(rank))
	x := c.Cast(c.In(0), d)
	off, inv := c.statistics(x, c.countOver(x, x, axes...), axes)
	hat := c.Mul(off, inv)
	if c.Wants(1) {
		c.Set(1, c.Cast(c.ReduceSum(c.Mul(g, hat), false, c.channelAxes(hat)...), c.DType(c.In(1))))
	}
	if c.Wants(0) {
		g = c.Mul(g, c.alongChannels(c.Cast(c.In(1), d), rank))
		c.Set(0, c.Cast(c.normData(hat, inv, g, true, axes), c.DType(c.In(0))))
	}
}

// channelBiasCast is channelBias for a gradient in a wider type.
func (c *Ctx) channelBiasCast(g Value) {
	if c.Wants(2) {
		c.Set(2, c.Cast(c.ReduceSum(g, false, c.channelAxes(g)...), c.DType(c.In(2))))
	}
}

// groupNormalizationRule: as layerNormalizationRule, over groups of neighbouring channels of each
// sample, the data lying as [N, groups, …]. Scale and bias have one element per channel, before
// version 21 one per group. Stashes X, and recomputes the statistics.
func groupNormalizationRule(c *Ctx) {
	x, groups := c.In(0), c.Node.Int("num_groups", 1)
	d := c.normType(x)
	grouped := c.Vector(0, groups, -1)
	lie := grouped // how the data lie where scale and bias meet them
	if c.Version >= 21 {
		lie = c.joinInts(c.Vector(0), c.Dim(x, 1), c.Vector(-1))
	}
	g := c.Reshape(c.Cast(c.Grad(0), d), lie)
	c.channelBiasCast(g)
	if !c.Wants(0) && !c.Wants(1) {
		return
	}
	axes := []int64{2}
	wide := c.Reshape(c.Cast(x, d), grouped)
	off, inv := c.statistics(wide, c.countOver(wide, wide, axes...), axes)
	hat := c.Mul(off, inv)
	if c.Wants(1) {
		c.Set(1, c.Cast(c.ReduceSum(c.Mul(g, c.reshaped(hat, lie, grouped)), false, 0, 2), c.DType(c.In(1))))
	}
	if c.Wants(0) {
		g = c.reshaped(c.Mul(g, c.alongChannels(c.Cast(c.In(1), d), 3)), grouped, lie)
		dx := c.normData(hat, inv, g, true, axes)
		c.Set(0, c.Cast(c.formVia(dx, x, c.Grad(0)), c.DType(x)))
	}
}

// reshaped is a Reshape from one shape to another, or v itself if they are the same.
func (c *Ctx) reshaped(v, to, from Value) Value {
	if to == from {
		return v
	}
	return c.Reshape(v, to)
}
