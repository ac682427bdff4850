package autograd

import "memopt/graph"

// compressRule: the slices of the gradient go back to the places where the condition holds. Stashes
// the condition.
func compressRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	g, x := c.Grad(0), c.In(0)
	places := c.Squeeze(c.Op("NonZero", nil, c.In(1)), 0)
	if c.Node.Attr("axis") != nil {
		axis := c.Axis(c.Node.Int("axis", 0), c.Rank(x))
		c.Set(0, c.scatterAlong(g, places, axis, c.Dim(x, axis), false))
		return
	}
	flat := c.Reshape(c.zerosOf(c.ShapeOf(x), g), c.Vector(-1))
	c.Set(0, c.reshapeBack(c.scatterND(flat, c.Unsqueeze(places, 1), g, false), x))
}

// oneHotRule: the on-value gets the sum of the gradient where it stands, the off-value the rest.
// Stashes the indices.
func oneHotRule(c *Ctx) {
	if !c.Wants(2) {
		return
	}
	g := c.Grad(0)
	zero, err := scalarBytes(c.DType(g), 0)
	c.must(err)
	one, err := scalarBytes(c.DType(g), 1)
	c.must(err)
	values := c.j.constant(&graph.TensorData{DType: c.DType(g), Dims: []int64{2},
		Source: graph.Raw(append(zero, one...))})
	hot := c.Op("OneHot", Attrs{A("axis", c.Node.Int("axis", -1))}, c.In(0), c.In(1), values)
	on := c.sumOf(c.Mul(g, hot))
	off := c.Sub(c.sumOf(g), on)
	c.Set(2, c.Concat(0, c.Unsqueeze(off, 0), c.Unsqueeze(on, 0)))
}
