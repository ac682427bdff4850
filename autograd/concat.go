package autograd

// concatRule: each input gets its part of the gradient: one Split, or slices where not all inputs
// want theirs. Concat and ConcatTraining. No stash where the lengths are known.
func concatRule(c *Ctx) {
	inputs, wanted := c.Node.Inputs, 0
	for i := range inputs {
		if c.Wants(i) {
			wanted++
		}
	}
	g := c.Grad(0)
	if wanted == 0 || g == None {
		return
	}
	if len(inputs) == 1 {
		c.Set(0, g)
		return
	}
	axis := c.Axis(c.concatAxis(), c.Rank(g))
	lengths, known := c.lengths(inputs, axis)
	if known && wanted < len(inputs) {
		at := int64(0)
		for i, n := range lengths {
			if c.Wants(i) {
				c.Set(i, c.sliceAxis(g, axis, at, at+n))
			}
			at += n
		}
		return
	}
	for i, part := range c.split(g, axis, inputs) {
		c.Set(i, part)
	}
}

// concatAxis reads the axis, which had a default before version 4.
func (c *Ctx) concatAxis() int64 { return c.Node.Int("axis", 1) }

// lengths are the lengths of values along an axis; ok is false where one is not a number.
func (c *Ctx) lengths(values []Value, axis int64) (list []int64, ok bool) {
	list = make([]int64, len(values))
	for i, v := range values {
		c.Rank(v)
		if list[i], ok = c.extentOf(v, axis).length.Const(); !ok {
			return nil, false
		}
	}
	return list, true
}

// split cuts a value along an axis into parts as long as others are.
func (c *Ctx) split(v Value, axis int64, like []Value) []Value {
	lengths, known := c.lengths(like, axis)
	if known && c.j.opset() < axesInput {
		return c.Ops("Split", len(like), Attrs{A("axis", axis), A("split", lengths)}, v)
	}
	c.need(axesInput)
	var sizes []extent
	for _, l := range like {
		sizes = append(sizes, c.extentOf(l, axis))
	}
	return c.Ops("Split", len(like), Attrs{A("axis", axis)}, v, c.vector(sizes))
}

// splitRule: the gradients of the parts joined, with zeros for parts without gradient. Split and
// SplitTraining. No stash where the lengths are known.
func splitRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	axis := c.Axis(c.Node.Int("axis", 0), c.Rank(c.In(0)))
	if g, pads, ok := c.onlyPart(axis); ok {
		c.Set(0, c.padZeros(g, pads))
		return
	}
	parts := make([]Value, len(c.Node.Outputs))
	for i := range parts {
		if parts[i] = c.Grad(i); parts[i] == None {
			y := c.Out(i)
			parts[i] = c.zerosOf(c.ShapeOf(y), y)
		}
	}
	if len(parts) == 1 {
		c.Set(0, parts[0])
		return
	}
	c.Set(0, c.Concat(axis, parts...))
}

// onlyPart returns the one part of a Split that has a gradient, and how much lies before and behind
// it.
func (c *Ctx) onlyPart(axis int64) (g Value, pads []int64, ok bool) {
	g = None
	place := 0
	for i := range c.Node.Outputs {
		if v := c.Grad(i); v != None {
			if g != None {
				return None, nil, false
			}
			g, place = v, i
		}
	}
	outputs := make([]Value, len(c.Node.Outputs))
	for i := range outputs {
		outputs[i] = c.Out(i)
	}
	lengths, ok := c.lengths(outputs, axis)
	if !ok {
		return None, nil, false
	}
	rank := int64(c.Rank(g))
	pads = make([]int64, 2*rank)
	for i, n := range lengths {
		if i < place {
			pads[axis] += n
		} else if i > place {
			pads[rank+axis] += n
		}
	}
	return g, pads, true
}
