package autograd

// flattenAndUnpadRule: the rows go back to their places, those of the tokens that are no padding;
// no place occurs twice. Stashes the places.
func flattenAndUnpadRule(c *Ctx) {
	if !c.Wants(0) || c.Grad(0) == None {
		return
	}
	g, x := c.Grad(0), c.In(0)
	if c.Rank(x) < 2 {
		c.Unsupported("the rank of its input is below 2")
	}
	var lengths, rows Value
	if n, known := c.lengthsOf(x); known {
		lengths, rows = c.Vector(n[0], n[1]), c.Vector(n[0]*n[1])
	} else {
		lengths = c.Out(1)
		rows = c.Reduce("ReduceProd", lengths, true, 0)
	}
	out := c.scatterAlong(g, c.In(1), 0, rows, false)
	c.Set(0, c.Reshape(out, c.joined(lengths, c.extentsOf(x, 2))))
}

// lengthsOf returns the first two dims where they are numbers.
func (c *Ctx) lengthsOf(x Value) (n [2]int64, ok bool) {
	for i := range n {
		if n[i], ok = c.extentOf(x, int64(i)).length.Const(); !ok {
			return n, false
		}
	}
	return n, true
}

// padAndUnflattenRule: the rows are taken from where they were put. Stashes the places.
func padAndUnflattenRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	x := c.In(0)
	c.Rank(x)
	rows := c.Reshape(c.Grad(0), c.joined(c.Vector(-1), c.extentsOf(x, 1)))
	c.Set(0, c.Op("Gather", Attrs{A("axis", int64(0))}, rows, c.In(1)))
}
