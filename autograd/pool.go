package autograd

// averagePoolRule: every element gets, from each place whose window reaches it, that place's
// gradient over the number of elements it averages: a transposed convolution with a kernel of ones,
// plane by plane. No stash.
func averagePoolRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	s := c.newSlide(x, g, c.kernelOf(None))
	size := int64(1)
	for _, k := range s.kernel {
		size *= k
	}
	share := 1 / float64(size)
	if counts := c.poolCounts(s, x, g); counts != None {
		g, share = c.Div(g, counts), 1
	}
	c.Set(0, c.spreadPlanes(s, g, x, share))
}

// spreadPlanes is spread with a kernel of equal weights, for every channel by itself.
func (c *Ctx) spreadPlanes(s *slide, g, x Value, weight float64) Value {
	shape := c.shapeVia(x, g)
	planes := c.Reshape(g, c.joinInts(c.Vector(-1, 1), c.spatialDims(g)))
	kernel := c.filled(weight, c.Vector(append([]int64{1, 1}, s.kernel...)...), g)
	return c.Reshape(c.spread(s, planes, kernel, x, 1), shape)
}

// poolCounts returns the number of elements that each place averages, [1, 1, …], or None if it is the
// whole kernel everywhere: a convolution of ones with ones. If it is known only at run time how far the
// last window of ceil_mode reaches beyond the end, the convolution makes one more place, and the excess is
// cut off, as the places of g say.
func (c *Ctx) poolCounts(s *slide, x, g Value) Value {
	n := s.axes()
	include, ceil := c.Node.Int("count_include_pad", 0) != 0, c.Node.Int("ceil_mode", 0) != 0
	stated := append([]int64(nil), c.listOr("pads", 2*n, 0)...)
	if m := c.Node.Str("auto_pad", "NOTSET"); m != "NOTSET" && m != "" {
		stated = s.pads()
	}
	over := *s // the places over the padded tensor, where padding counts
	over.begin, over.end = append([]int64(nil), s.begin...), append([]int64(nil), s.end...)
	partial, excess := false, false
	var dims []Value
	for i := range n {
		dim := c.Dim(x, int64(i+2))
		if include {
			pad := stated[i] + stated[n+i]
			if pad != 0 {
				dim = c.addConst(dim, pad)
			}
			over.begin[i], over.end[i] = 0, max(s.end[i]-stated[n+i], 0)
		}
		if s.open[i] && ceil && s.strides[i] > 1 {
			over.end[i] += s.strides[i] - 1
			excess = true
		}
		partial = partial || over.begin[i] > 0 || over.end[i] > 0
		dims = append(dims, dim)
	}
	if !partial {
		return None
	}
	ones := c.filled(1, c.joinInts(append([]Value{c.Vector(1, 1)}, dims...)...), x)
	kernel := c.filled(1, c.Vector(append([]int64{1, 1}, s.kernel...)...), x)
	counts := c.Op("Conv", over.attrs(1), ones, kernel)
	if excess {
		counts = c.crop(counts, c.spatialDims(g), n)
	}
	return counts
}

// addConst adds a number to an int64 vector.
func (e *emitter) addConst(v Value, n int64) Value {
	if ints, ok := e.intsOf(v); ok && len(ints) == 1 {
		return e.Vector(ints[0] + n)
	}
	return e.Add(v, e.Vector(n))
}

// globalAveragePoolRule: every element gets the gradient over the number of elements of its plane.
// No stash.
func globalAveragePoolRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	axes := axesFrom(2, int64(c.Rank(x)))
	c.Set(0, c.Op("Expand", nil, c.overCount(g, x, axes...), c.shapeVia(x, g)))
}

// maxPoolRule: dY is added up at the elements that were chosen, the first of equal ones, as in
// PyTorch. Stashes the indices of the choices, an output that the node gets if it lacks it, and not
// X.
func maxPoolRule(c *Ctx) {
	if c.Grad(0) == None {
		return
	}
	if c.Node.Int("storage_order", 0) != 0 {
		c.Unsupported("with storage_order = 1")
	}
	c.Need(11) // ScatterElements
	x, g := c.In(0), c.Grad(0)
	s := c.slideAttrs(c.kernelOf(None))
	attrs := Attrs{A("axis", int64(0))}
	for i := range s.axes() {
		if s.strides[i] < s.extent(i) { // windows overlap: an element may be chosen twice
			c.Need(16)
			attrs = Attrs{A("axis", int64(0)), A("reduction", "add")}
		}
	}
	shape := c.shapeVia(x, g)
	zeros := c.filled(0, c.vectorProduct(shape), g)
	flat := c.Vector(-1)
	sum := c.Op("ScatterElements", attrs, zeros, c.Reshape(c.Out(1), flat), c.Reshape(g, flat))
	c.Set(0, c.Reshape(sum, shape))
}

// vectorProduct multiplies the elements of an int64 vector, into a vector of one.
func (e *emitter) vectorProduct(v Value) Value {
	if ints, ok := e.intsOf(v); ok {
		n := int64(1)
		for _, i := range ints {
			n *= i
		}
		return e.Vector(n)
	}
	return e.Reduce("ReduceProd", v, true, 0)
}
