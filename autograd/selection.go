package autograd

import "memopt/graph"

// centerCropPadRule: what was cut comes back as zeros and what was added is cut: the operator with
// the lengths of the input. An odd difference is split the same way in both directions. Stashes
// nothing where the shape is known.
func centerCropPadRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	x := c.In(0)
	axes := c.Node.IntList("axes", nil)
	if axes == nil {
		c.Set(0, c.Op("CenterCropPad", nil, c.Grad(0), c.ShapeOf(x)))
		return
	}
	var lengths []extent
	for _, a := range axes {
		lengths = append(lengths, c.extentOf(x, c.Axis(a, c.Rank(x))))
	}
	c.Set(0, c.Op("CenterCropPad", Attrs{A("axes", axes)}, c.Grad(0), c.vector(lengths)))
}

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

// reverseSequenceRule: reversing the same parts again undoes it. Stashes the lengths.
func reverseSequenceRule(c *Ctx) {
	attrs := Attrs{A("batch_axis", c.Node.Int("batch_axis", 1)), A("time_axis", c.Node.Int("time_axis", 0))}
	c.Set(0, c.Op("ReverseSequence", attrs, c.Grad(0), c.In(1)))
}

// triluRule: the same triangle of the gradient. Stashes the number of the diagonal.
func triluRule(c *Ctx) {
	in := []Value{c.Grad(0)}
	if c.Has(1) {
		in = append(in, c.In(1))
	}
	c.Set(0, c.Op("Trilu", Attrs{A("upper", c.Node.Int("upper", 1))}, in...))
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

// flattenAndUnpadRule: the rows go back to their places, none of which occurs twice: they are those
// of the tokens that are not padding. Stashes the places.
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
