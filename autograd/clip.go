package autograd

// clipRule: the gradient goes to x where x is within the bounds or on one of them, that is, where
// clipping leaves x as it is, else to the bound that is taken: to the lower one where x is below it, to
// the upper one where x is above it, and everywhere where the bounds are in the wrong order. Stashes x
// and the bounds.
func clipRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	if c.Wants(0) {
		again := c.Op("Clip", append(Attrs(nil), c.Node.Attrs...), c.Node.Inputs...)
		c.Set(0, c.mathIf(c.mathEqual(again, x), g))
	}
	if c.Wants(1) {
		taken := c.Op("Less", nil, x, c.In(1))
		if c.Has(2) {
			taken = c.Op("And", nil, taken, c.Op("Less", nil, c.In(1), c.In(2)))
		}
		c.Set(1, c.boundSum(taken, c.In(1)))
	}
	if c.Wants(2) {
		taken := c.Op("Greater", nil, x, c.In(2))
		if c.Has(1) {
			taken = c.Op("Or", nil, taken, c.Op("Less", nil, c.In(2), c.In(1)))
		}
		c.Set(2, c.boundSum(taken, c.In(2)))
	}
}

// boundSum sums the gradient where a bound is taken.
func (c *Ctx) boundSum(taken, bound Value) Value {
	return c.reshapeBack(c.sumOf(c.mathIf(taken, c.Grad(0))), bound)
}
