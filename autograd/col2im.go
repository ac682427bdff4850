package autograd

// col2ImRule: each block's gradient is the part of dY under it: a convolution with a kernel per
// place in the block. No stash.
func col2ImRule(c *Ctx) {
	g := c.Grad(0)
	block, ok := c.Ints(c.In(2))
	if !ok {
		c.Unsupported("with a block_shape that is not known")
	}
	n := len(block)
	size := int64(1)
	for _, b := range block {
		size *= b
	}
	square := c.filled(0, c.Vector(size, size), g)
	kernel := c.Reshape(c.Op("EyeLike", nil, square), c.Vector(append([]int64{size, 1}, block...)...))
	planes := c.Reshape(g, c.joinInts(c.Vector(-1, 1), c.spatialDims(g)))
	attrs := Attrs{A("dilations", c.listOr("dilations", n, 1)), A("pads", c.listOr("pads", 2*n, 0)),
		A("strides", c.listOr("strides", n, 1))}
	c.Set(0, c.Reshape(c.Op("Conv", attrs, planes, kernel), c.shapeVia(c.In(0), g)))
}
