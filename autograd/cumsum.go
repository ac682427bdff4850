package autograd

// cumSumRule: element j adds to the sums at and after it, or before it in reverse: its gradient is
// the sum of theirs, the same scan from the other end. Stashes the axis.
func cumSumRule(c *Ctx) {
	attrs := Attrs{A("exclusive", c.Node.Int("exclusive", 0)), A("reverse", 1-c.Node.Int("reverse", 0))}
	c.Set(0, c.Op("CumSum", attrs, c.Grad(0), c.In(1)))
}
