package autograd

// uniqueRule: which elements are equal decides the shape of the result, so that it has no
// derivative where two meet.
func uniqueRule(c *Ctx) {
	c.Unsupported("the number of distinct elements changes with the data")
}
