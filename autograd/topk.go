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
