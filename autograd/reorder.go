package autograd

// reverseSequenceRule: reversing the same parts again undoes it. Stashes the lengths.
func reverseSequenceRule(c *Ctx) {
	attrs := Attrs{A("batch_axis", c.Node.Int("batch_axis", 1)), A("time_axis", c.Node.Int("time_axis", 0))}
	c.Set(0, c.Op("ReverseSequence", attrs, c.Grad(0), c.In(1)))
}

// triluRule: the same triangle of the gradient. Stashes the number of the diagonal.
func triluRule(c *Ctx) {
	in := []Value{c.Grad(0)}
	if c.Has(1) {
		in = append(in, c.In(1))
	}
	c.Set(0, c.Op("Trilu", Attrs{A("upper", c.Node.Int("upper", 1))}, in...))
}
