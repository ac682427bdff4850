package autograd

// centerCropPadRule: cropped places come back as zeros and padding is cropped: the operator with
// the lengths of the input. An odd difference is split the same way in both directions. No stash
// where the shape is known.
func centerCropPadRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	x := c.In(0)
	axes := c.Node.IntList("axes", nil)
	if axes == nil {
		c.Set(0, c.Op("CenterCropPad", nil, c.Grad(0), c.ShapeOf(x)))
		return
	}
	var lengths []extent
	for _, a := range axes {
		lengths = append(lengths, c.extentOf(x, c.Axis(a, c.Rank(x))))
	}
	c.Set(0, c.Op("CenterCropPad", Attrs{A("axes", axes)}, c.Grad(0), c.vector(lengths)))
}
