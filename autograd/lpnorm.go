package autograd

// lpNormalizationRule: Y = X/n gives, with n the sum of absolute values or the root of the sum of
// squares,
//
//	dX = (dY - sign(X)·Σ dY·Y)/n   for p = 1
//	dX = (dY - Y·Σ dY·Y)/n         for p = 2
//
// and zero where n is. Stashes X, and recomputes n.
func lpNormalizationRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	axis := c.Axis(c.Node.Int("axis", -1), c.Rank(x))
	name, one := "ReduceL2", c.Node.Int("p", 2) == 1
	if one {
		name = "ReduceL1"
	}
	n := c.Reduce(name, x, true, axis)
	some := c.Op("Greater", nil, n, c.Scalar(0, n))
	inv := c.Where(some, c.Op("Reciprocal", nil, n), c.Scalar(0, n))
	y := c.Mul(x, inv)
	sum := c.ReduceSum(c.Mul(g, y), true, axis)
	if one {
		y = c.Op("Sign", nil, x)
	}
	c.Set(0, c.Mul(c.Sub(g, c.Mul(y, sum)), inv))
}
