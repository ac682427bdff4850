package autograd

import (
	"memopt/graph"
	"memopt/symbolic"
)

// gatherRule: the gradient's slices are added up at the indices: one ScatterND along the leading
// axis, onto the gradient that the table has from other readers, or onto zeros. So the slices are
// added to that gradient one by one, and not as their sum: where an index occurs twice, another
// rounding. A run of constant indices is a slice, whose gradient has zeros around it. Stashes the
// indices.
func gatherRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	x := c.In(0)
	axis := c.Axis(c.Node.Int("axis", 0), c.Rank(x))
	if c.isRun(c.In(1)) {
		c.setRun(x, axis)
		return
	}
	if sum := c.Sum(0); sum != None && axis == 0 && c.j.opset() >= scatterReduce {
		c.SetSum(0, c.scatterRows(sum, c.Grad(0), c.In(1)))
		return
	}
	c.Set(0, c.ungather(c.Grad(0), x, c.In(1), axis))
}

// setRun gives x the gradient of the run of places that was taken from its axis.
func (c *Ctx) setRun(x Value, axis int64) {
	ints, _ := c.intsOf(c.In(1))
	g, n, d := c.Grad(0), int64(len(ints)), c.extentOf(x, axis).length
	if c.Rank(c.In(1)) == 0 {
		g = c.Unsqueeze(g, axis)
	}
	p := part{g: g, axis: axis, first: symbolic.Const(ints[0]), length: symbolic.Const(n)}
	p.pad = func() Value { return c.padRun(g, x, axis, ints[0], n) }
	if ints[0] < 0 {
		p.first = d.Add(p.first)
		if _, known := d.Const(); !known && ints[n-1] != -1 { // it is not at a number, nor at the end
			c.Set(0, p.pad())
			return
		}
	}
	c.setPart(0, p)
}

// scatterRows adds the slices of g to rows of a sum.
func (c *Ctx) scatterRows(sum, g, indices Value) Value {
	return c.scatterND(sum, c.Unsqueeze(c.Cast(indices, graph.Int64), int64(c.Rank(indices))), g, true)
}

// isRun reports whether indices are a run of constants, one scalar among them.
func (c *Ctx) isRun(indices Value) bool {
	ints, constant := c.intsOf(indices)
	return constant && c.Rank(indices) <= 1 && oneRun(ints)
}

// ungather is the gradient of x from that of the slices of x at indices of an axis.
func (c *Ctx) ungather(g, x, indices Value, axis int64) Value {
	q := c.Rank(indices)
	ints, constant := c.intsOf(indices)
	if c.isRun(indices) {
		if q == 0 {
			g = c.Unsqueeze(g, axis)
		}
		return c.padRun(g, x, axis, ints[0], int64(len(ints)))
	}
	return c.scatterAlong(g, indices, axis, c.Dim(x, axis), !constant || !distinct(ints))
}

// oneRun reports whether indices are n, n+1, … and all of one sign.
func oneRun(ints []int64) bool {
	for i, v := range ints {
		if v != ints[0]+int64(i) || v < 0 != (ints[0] < 0) {
			return false
		}
	}
	return len(ints) > 0
}

// padRun puts zeros around g, which is n long along an axis of x and begins at an index of it.
func (c *Ctx) padRun(g, x Value, axis, first, n int64) Value {
	rank := int64(c.Rank(x))
	pads := make([]int64, 2*rank)
	if d, known := c.extentOf(x, axis).length.Const(); known {
		if first < 0 {
			first += d
		}
		pads[axis], pads[rank+axis] = first, d-first-n
		return c.padZeros(g, pads)
	}
	c.need(scatterFirst)
	slot, rest := axis, -first // the amount that depends on the length, and by how much it is less
	if first < 0 {
		pads[rank+axis] = -first - n
	} else {
		pads[axis], slot, rest = first, rank+axis, first+n
	}
	parts := []Value{c.Sub(c.Dim(x, axis), c.Vector(rest))}
	if slot > 0 {
		parts = append([]Value{c.Vector(pads[:slot]...)}, parts...)
	}
	if slot+1 < 2*rank {
		parts = append(parts, c.Vector(pads[slot+1:]...))
	}
	return c.Op("Pad", nil, g, c.Concat(0, parts...))
}

// distinct reports whether indices are certainly distinct: of one sign, and no number twice.
func distinct(ints []int64) bool {
	seen := map[int64]bool{}
	for _, x := range ints {
		if seen[x] || x < 0 != (ints[0] < 0) {
			return false
		}
		seen[x] = true
	}
	return true
}

// gatherElementsRule: each element of the gradient is added at its source, onto the present sum, as
// in gatherRule. Stashes the indices.
func gatherElementsRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	c.need(scatterReduce)
	axis := c.Node.Int("axis", 0)
	c.SetSum(0, c.Op("ScatterElements", Attrs{A("axis", axis), A("reduction", "add")}, c.sumOrZeros(0), c.In(1),
		c.Grad(0)))
}

// sumOrZeros is the base of a scatter: the gradient of input i so far, or zeros.
func (c *Ctx) sumOrZeros(i int) Value {
	if sum := c.Sum(i); sum != None {
		return sum
	}
	return c.zerosOf(c.ShapeOf(c.In(i)), c.Grad(0))
}

// gatherNDRule: the slices of the gradient are added at their sources, onto the present sum, as in
// gatherRule. Stashes the indices. Batch dims become leading elements of the tuples.
func gatherNDRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	indices := c.In(1)
	if batch := int(c.Node.Int("batch_dims", 0)); batch > 0 {
		indices = c.batchTuples(indices, batch)
	}
	c.need(scatterReduce)
	c.SetSum(0, c.scatterND(c.sumOrZeros(0), indices, c.Grad(0), true))
}

// batchTuples puts the place in the batch before each tuple of indices.
func (c *Ctx) batchTuples(indices Value, batch int) Value {
	rank := c.Rank(indices)
	one := append(c.extentsOf(indices, 0)[:rank-1], number(1))
	shape := c.vector(one)
	var parts []Value
	for i := range batch {
		places := make([]int64, rank)
		for k := range places {
			places[k] = 1
		}
		places[i] = -1
		at := c.Reshape(c.iota(c.Dim(indices, int64(i))), c.Vector(places...))
		parts = append(parts, c.Op("Expand", nil, at, shape))
	}
	return c.Concat(int64(rank-1), append(parts, indices)...)
}
