package autograd

// reshapeRule: the gradient in the shape of the input: Reshape and Flatten. No stash as long as the
// shape follows from the gradient's.
func reshapeRule(c *Ctx) {
	if c.Wants(0) {
		c.Set(0, c.reshapeBack(c.Grad(0), c.In(0)))
	}
}

// squeezeRule: the axes that were removed come back. No stash where they are listed.
func squeezeRule(c *Ctx) { c.axesRule("Unsqueeze") }

// unsqueezeRule: the axes that were inserted go. No stash.
func unsqueezeRule(c *Ctx) { c.axesRule("Squeeze") }

func (c *Ctx) axesRule(inverse string) {
	if !c.Wants(0) {
		return
	}
	g, x := c.Grad(0), c.In(0)
	_, known := c.constDims(x)
	axes := c.Node.IntList("axes", nil)
	switch {
	case known || axes == nil && !c.Has(1):
		c.Set(0, c.reshapeBack(g, x))
	case axes != nil:
		c.Set(0, c.Op(inverse, Attrs{A("axes", axes)}, g))
	default:
		c.Set(0, c.Op(inverse, nil, g, c.In(1)))
	}
}

// identityRule: the gradient as it is. No stash.
func identityRule(c *Ctx) { c.Set(0, c.Grad(0)) }

// transposeRule: the inverse permutation. No stash.
func transposeRule(c *Ctx) {
	perm := c.Node.IntList("perm", nil)
	if perm == nil { // the axes in reverse order
		c.Set(0, c.Op("Transpose", nil, c.Grad(0)))
		return
	}
	back := make([]int64, len(perm))
	for i, p := range perm {
		back[p] = int64(i)
	}
	c.Set(0, c.Transpose(c.Grad(0), back...))
}

// expandRule: the gradient, summed over the repeats. No stash.
func expandRule(c *Ctx) {
	if c.Wants(0) {
		c.Set(0, c.SumTo(c.Grad(0), c.In(0)))
	}
}

// tileRule: each axis of the gradient is taken apart into repeats and elements, and summed over the
// repeats. No stash.
func tileRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	if c.Version < 6 {
		c.Unsupported("version %d of the operator", c.Version)
	}
	g, x := c.Grad(0), c.In(0)
	rank := c.Rank(x)
	if rank == 0 {
		c.Set(0, g)
		return
	}
	repeats, ok := c.intsOf(c.In(1))
	if !ok {
		c.Set(0, c.untile(g, x, rank))
		return
	}
	var shape []extent
	var axes []int64
	for i, r := range repeats {
		if r != 1 {
			axes = append(axes, int64(len(shape)))
			shape = append(shape, number(r))
		}
		shape = append(shape, c.extentOf(x, int64(i)))
	}
	if len(axes) > 0 {
		g = c.ReduceSum(c.reshapeTo(g, shape), false, axes...)
	}
	c.Set(0, g)
}

// untile is tileRule for repeats that are not known before the run.
func (c *Ctx) untile(g, x Value, rank int) Value {
	pairs := c.Concat(1, c.Unsqueeze(c.In(1), 1), c.Unsqueeze(c.ShapeOf(x), 1))
	shape := c.Reshape(pairs, c.Vector(-1))
	var axes []int64
	for i := range rank {
		axes = append(axes, int64(2*i))
	}
	return c.Reshape(c.ReduceSum(c.Reshape(g, shape), false, axes...), c.ShapeOf(x))
}
