package autograd

// topKRule: the gradient of each value goes to the place that it was taken from; places are
// distinct along the axis. Stashes the indices.
func topKRule(c *Ctx) {
	name := "ScatterElements"
	if c.j.opset() < 11 {
		name = "Scatter" // its name until then
	}
	axis := A("axis", c.Node.Int("axis", -1))
	c.Set(0, c.Op(name, Attrs{axis}, c.Zeros(c.In(0)), c.Out(1), c.Grad(0)))
}

// cumSumRule: element j adds to the sums at and after it, or before it in reverse: its gradient is
// the sum of theirs, the same scan from the other end. Stashes the axis.
func cumSumRule(c *Ctx) {
	attrs := Attrs{A("exclusive", c.Node.Int("exclusive", 0)), A("reverse", 1-c.Node.Int("reverse", 0))}
	c.Set(0, c.Op("CumSum", attrs, c.Grad(0), c.In(1)))
}

// uniqueRule: which elements are equal decides the shape of the result, so it has no derivative
// where two become equal.
func uniqueRule(c *Ctx) {
	c.Unsupported("the number of distinct elements changes with the data")
}

// detRule: the gradient is the determinant times the transposed inverse, and ONNX has no inverse.
func detRule(c *Ctx) {
	c.Unsupported("it takes the inverse of a matrix, for which ONNX has no operator")
}
