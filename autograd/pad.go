package autograd

import "memopt/graph"

// padRule: of a constant border the gradient is cut off, and its sum is that of the constant. In
// the other modes each axis in turn sends the gradient of its copies back to where they were taken
// from. Stashes the pads.
func padRule(c *Ctx) {
	if c.Version < 2 {
		c.Unsupported("version %d of the operator", c.Version)
	}
	mode := c.Node.Str("mode", "constant")
	if mode == "constant" {
		c.padConstantRule()
	} else if c.Wants(0) {
		c.Set(0, c.unpadCopies(mode))
	}
}

func (c *Ctx) padConstantRule() {
	g := c.Grad(0)
	value := c.Wants(2)
	if !c.Wants(0) && !value {
		return
	}
	kept := c.unpad(g)
	if value {
		border := c.Sub(c.sumOf(g), c.sumOf(kept))
		c.Set(2, c.reshapeBack(border, c.In(2)))
	}
	c.Set(0, kept)
}

// sumOf is the sum of all elements, a scalar.
func (c *Ctx) sumOf(v Value) Value {
	var axes []int64
	for i := range c.Rank(v) {
		axes = append(axes, int64(i))
	}
	return c.ReduceSum(v, false, axes...)
}

// unpad cuts a border off: a pad of the negative amounts, which also brings back with zeros the
// places that negative pads had cut.
func (c *Ctx) unpad(g Value) Value {
	pads, known := c.padAmounts()
	switch {
	case known:
		back := make([]int64, len(pads))
		positive := true
		for i, p := range pads {
			back[i] = -p
			positive = positive && p >= 0
		}
		if positive && !c.Has(3) {
			return c.cutBorder(g, pads)
		}
		if !c.Has(3) {
			return c.padZeros(g, back)
		}
		return c.Op("Pad", nil, g, c.Vector(back...), None, c.In(3))
	case c.Has(3):
		return c.Op("Pad", nil, g, c.Neg(c.In(1)), None, c.In(3))
	}
	return c.Op("Pad", nil, g, c.Neg(c.In(1)))
}

// padAmounts reads the pads: all that go before, then all that go behind.
func (c *Ctx) padAmounts() ([]int64, bool) {
	if c.Version < scatterFirst {
		return c.Node.IntList("pads", nil), true
	}
	return c.intsOf(c.In(1))
}

// cutBorder slices the middle out.
func (c *Ctx) cutBorder(g Value, pads []int64) Value {
	var axes, starts, ends []int64
	for i := range len(pads) / 2 {
		before, after := pads[i], pads[i+len(pads)/2]
		if before == 0 && after == 0 {
			continue
		}
		end := int64(lastIndex)
		if after > 0 {
			end = -after
		}
		axes, starts, ends = append(axes, int64(i)), append(starts, before), append(ends, end)
	}
	switch {
	case len(axes) == 0:
		return g
	case c.j.opset() < sliceInputs:
		return c.Op("Slice", Attrs{A("axes", axes), A("starts", starts), A("ends", ends)}, g)
	}
	return c.Slice(g, c.Vector(starts...), c.Vector(ends...), c.Vector(axes...))
}

// unpadCopies undoes modes reflect, edge and wrap: 0, 1, 2, …, padded as an axis was, says where
// each place took its element.
func (c *Ctx) unpadCopies(mode string) Value {
	c.need(scatterReduce)
	g, x := c.Grad(0), c.In(0)
	axes, known := c.padAxes(c.Rank(x))
	if !known {
		c.Unsupported("its axes are not known before the run")
	}
	pads, constant := c.padAmounts()
	for i, axis := range axes {
		var amounts Value
		switch k := i + len(axes); {
		case !constant:
			amounts = c.Op("Gather", nil, c.In(1), c.Vector(int64(i), int64(k)))
		case pads[i] == 0 && pads[k] == 0:
			continue
		default:
			amounts = c.Vector(pads[i], pads[k])
		}
		length := c.Dim(x, axis)
		places := c.Op("Pad", Attrs{A("mode", mode)}, c.iota(length), amounts)
		g = c.scatterAlong(g, c.Cast(places, graph.Int64), axis, length, true)
	}
	return g
}

// padAxes lists the axes of the pads.
func (c *Ctx) padAxes(rank int) ([]int64, bool) {
	var axes []int64
	if !c.Has(3) {
		for i := range rank {
			axes = append(axes, int64(i))
		}
		return axes, true
	}
	list, ok := c.intsOf(c.In(3))
	for _, a := range list {
		axes = append(axes, c.Axis(a, rank))
	}
	return axes, ok
}
