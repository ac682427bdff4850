package op

// lpNormalizationRule: Y like X.
func lpNormalizationRule(c *Ctx) {
	if p := c.Int("p", 2); p != 1 && p != 2 {
		c.Errorf("attribute p is %d, wanted 1 or 2", p)
		return
	}
	if c.normAxis(); !c.Failed() {
		c.Out(0, c.In(0))
	}
}
