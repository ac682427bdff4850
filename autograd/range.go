package autograd

// rangeRule: element i is start + i·delta, so that the start has the sum of the gradient, and delta that of
// i times it. Stashes no value.
func rangeRule(c *Ctx) {
	g := c.Grad(0)
	if c.Wants(0) {
		c.Set(0, c.reshapeBack(c.ReduceSum(g, false, 0), c.In(0)))
	}
	if c.Wants(2) {
		i := c.Cast(c.iota(c.Dim(g, 0)), c.DType(g))
		c.Set(2, c.reshapeBack(c.ReduceSum(c.Mul(g, i), false, 0), c.In(2)))
	}
}
