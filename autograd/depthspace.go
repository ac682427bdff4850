package autograd

// spaceToDepthRule: DepthToSpace is the inverse. No stash.
func spaceToDepthRule(c *Ctx) {
	c.Set(0, c.Op("DepthToSpace", Attrs{A("blocksize", c.Node.Int("blocksize", 1))}, c.Grad(0)))
}

// depthToSpaceRule: SpaceToDepth is the inverse in mode DCR; in mode CRD, where the channel is the
// slower index, the axes are moved by a Transpose. No stash where the plane is known.
func depthToSpaceRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	g, x, b := c.Grad(0), c.In(0), c.Node.Int("blocksize", 1)
	if c.Node.Str("mode", "DCR") == "DCR" {
		c.Set(0, c.Op("SpaceToDepth", Attrs{A("blocksize", b)}, g))
		return
	}
	c.Rank(x)
	c.Rank(g)
	parts := []extent{c.extentOf(g, 0), c.extentOf(g, 1), c.extentOf(x, 2), number(b), c.extentOf(x, 3), number(b)}
	c.Set(0, c.reshapeBack(c.Transpose(c.reshapeTo(g, parts), 0, 1, 3, 5, 2, 4), x))
}
