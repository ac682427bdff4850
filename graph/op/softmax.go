package op

// softmaxRule: Y like X. Before version 13 the axis splits the shape into two halves, and
// defaults to 1.
func softmaxRule(c *Ctx) {
	def := int64(-1)
	if c.Version < 13 {
		def = 1
	}
	softmaxAxis(c, def)
}

// biasSoftmaxRule: softmax(data + bias); the axis splits the shape, as in old versions of Softmax.
func biasSoftmaxRule(c *Ctx) {
	c.broadcastTo("the bias", c.Shape(1), c.Shape(0))
	softmaxAxis(c, 1)
}

func softmaxAxis(c *Ctx, def int64) {
	axis, s := c.Int("axis", def), c.Shape(0)
	rank := int64(len(s.Dims))
	// A split at the rank itself is legal before 13: everything is one row's length.
	if s.Ranked && !(def == 1 && (axis == rank || c.Node.Attr("axis") == nil)) {
		if _, ok := c.Axis("attribute axis", axis, len(s.Dims)); !ok {
			return
		}
	}
	c.Out(0, c.In(0))
}

// softmaxFLOPs: per element one maximum, one difference, one exponential, one sum, one quotient.
var softmaxFLOPs = perElement(5, 0)
