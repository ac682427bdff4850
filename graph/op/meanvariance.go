package op

// meanVarianceNormalizationRule: Y like X; the axes are 0, 2 and 3 unless given.
func meanVarianceNormalizationRule(c *Ctx) {
	s := c.Shape(0)
	axes, given := c.IntList("axes")
	if !given {
		axes = []int64{0, 2, 3}
	}
	for _, a := range axes {
		if !s.Ranked {
			break
		}
		if _, ok := c.Axis("an axis", a, len(s.Dims)); !ok {
			return
		}
	}
	c.Out(0, c.In(0))
}
