package autograd

// gatherRule: the gradient's slices are added up at the indices, in zeros: one ScatterND along the leading
// axis. A run of constant indices is a slice, whose gradient has zeros around it. Stashes the
// indices.
func gatherRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	x := c.In(0)
	axis := c.Axis(c.Node.Int("axis", 0), c.Rank(x))
	c.Set(0, c.ungather(c.Grad(0), x, c.In(1), axis))
}

// ungather is the gradient of x from that of the slices of x at indices of an axis.
func (c *Ctx) ungather(g, x, indices Value, axis int64) Value {
	rank, q := c.Rank(x), c.Rank(indices)
	n, known := c.extentOf(x, axis).length.Const()
	ints, constant := c.intsOf(indices)
	if first, ok := oneRun(ints, n); constant && known && ok && q <= 1 {
		if q == 0 {
			g = c.Unsqueeze(g, axis)
		}
		pads := make([]int64, 2*rank)
		pads[axis], pads[int64(rank)+axis] = first, n-first-int64(len(ints))
		return c.padZeros(g, pads)
	}
	return c.scatterAlong(g, indices, axis, c.Dim(x, axis), !constant || !distinct(ints))
}

// oneRun reports whether indices into an axis of length n are first, first+1, ….
func oneRun(ints []int64, n int64) (first int64, ok bool) {
	for i, x := range ints {
		if x < 0 {
			x += n
		}
		if i == 0 {
			first = x
		}
		if x != first+int64(i) {
			return 0, false
		}
	}
	return first, len(ints) > 0
}

// distinct reports whether indices are surely different: of one sign, and no number twice.
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

// gatherElementsRule: each element of the gradient is added where it was taken from. Stashes the
// indices.
func gatherElementsRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	c.need(scatterReduce)
	axis := c.Node.Int("axis", 0)
	zeros := c.zerosOf(c.ShapeOf(c.In(0)), c.Grad(0))
	c.Set(0, c.Op("ScatterElements", Attrs{A("axis", axis), A("reduction", "add")}, zeros, c.In(1), c.Grad(0)))
}

// gatherNDRule: the slices of the gradient are added where they were taken from. Stashes the
// indices. Batch dims become leading elements of the tuples.
func gatherNDRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	indices := c.In(1)
	if batch := int(c.Node.Int("batch_dims", 0)); batch > 0 {
		indices = c.batchTuples(indices, batch)
	}
	zeros := c.zerosOf(c.ShapeOf(c.In(0)), c.Grad(0))
	c.Set(0, c.scatterND(zeros, indices, c.Grad(0), true))
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
