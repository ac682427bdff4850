package autograd

import "memopt/graph"

// resized is one axis of a Resize or Upsample with its factor.
type resized struct {
	axis  int64
	scale Value // a vector of one, or None if sizes give it
}

// resizeRule: the operator is linear and takes one axis after the other, so that axis i is
// multiplied by a matrix; the gradient multiplies by its transpose. The matrix is the operator's
// result for the identity, in whatever mode it has. Enlarging to the nearest by whole numbers is a
// sum over blocks, by an average pool. Stashes dims only.
func resizeRule(c *Ctx) {
	if c.Node.Str("coordinate_transformation_mode", "") == "tf_crop_and_resize" {
		c.Unsupported("with tf_crop_and_resize")
	}
	if c.Node.Str("keep_aspect_ratio_policy", "stretch") != "stretch" {
		c.Unsupported("with keep_aspect_ratio_policy")
	}
	g := c.Grad(0)
	if dx := c.blockSums(g); dx != None {
		c.Set(0, dx)
		return
	}
	if c.j.opset() < 9 {
		c.Unsupported("before operator set 9, which introduces EyeLike")
	}
	for _, r := range c.resizedAxes() {
		g = c.resizeBack(g, r)
	}
	c.Set(0, g)
}

// resizeSlots are the inputs that give the new size, -1 for a missing one. Upsample has versions up
// to 10, Resize from 10 on.
func (c *Ctx) resizeSlots() (scales, sizes int) {
	switch {
	case c.Version < 9:
		return -1, -1
	case c.Version < 11:
		return 1, -1
	}
	sizes = 3
	if n, ok := c.length(c.In(3)); !c.Has(3) || ok && n == 0 {
		sizes = -1
	}
	return 2, sizes
}

// length is the length of a vector.
func (c *Ctx) length(v Value) (int64, bool) {
	if v == None {
		return 0, true
	}
	dims, ok := c.Dims(v)
	if !ok || len(dims) != 1 {
		return 0, false
	}
	return dims[0].Const()
}

// knownScales returns the factors that are numbers in the file.
func (c *Ctx) knownScales(slot int) []float64 {
	if slot < 0 {
		var list []float64
		for _, s := range c.Node.FloatList("scales", nil) {
			list = append(list, float64(s))
		}
		return list
	}
	return c.knownFloats(c.In(slot))
}

// resizeAxisList lists the axes that scales and sizes are about.
func (c *Ctx) resizeAxisList() []int64 {
	rank := c.Rank(c.In(0))
	if raw := c.Node.IntList("axes", nil); len(raw) > 0 && c.Version >= 18 {
		var axes []int64
		for _, a := range raw {
			axes = append(axes, c.Axis(a, rank))
		}
		return axes
	}
	return axesFrom(0, int64(rank))
}

// resizedAxes lists the axes that change, as far as that is known.
func (c *Ctx) resizedAxes() []resized {
	scales, sizes := c.resizeSlots()
	in, _ := c.Dims(c.In(0))
	out, _ := c.Dims(c.Grad(0))
	shifts := c.Node.Str("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn"
	var known []float64
	if sizes < 0 {
		known = c.knownScales(scales)
	}
	var list []resized
	for i, axis := range c.resizeAxisList() {
		switch {
		case sizes >= 0:
			if len(out) == len(in) && in[axis].Equal(out[axis]) && !shifts {
				continue
			}
			list = append(list, resized{axis, None})
		case known != nil:
			if known[i] != 1 || shifts {
				list = append(list, resized{axis, c.floatVector(float32(known[i]))})
			}
		default:
			at := int64(i)
			list = append(list, resized{axis, c.Slice(c.In(scales), c.Vector(at), c.Vector(at+1), c.Vector(0))})
		}
	}
	return list
}

// floatVector is a constant vector of float32.
func (e *emitter) floatVector(v ...float32) Value {
	return e.j.constant(graph.Float32Tensor("", []int64{int64(len(v))}, v...))
}

// resizeBack takes the gradient back along one axis.
func (c *Ctx) resizeBack(g Value, r resized) Value {
	matrix := c.resizeMatrix(g, r) // [in, out]
	rank := int64(c.Rank(g))
	if r.axis == rank-2 {
		return c.MatMul(matrix, g)
	}
	matrix = c.Transpose(matrix, 1, 0)
	if r.axis == rank-1 {
		return c.MatMul(g, matrix)
	}
	perm := axesFrom(0, rank)
	perm[r.axis], perm[rank-1] = perm[rank-1], perm[r.axis]
	return c.Transpose(c.MatMul(c.Transpose(g, perm...), matrix), perm...)
}

// resizeMatrix resizes the columns of the identity.
func (c *Ctx) resizeMatrix(g Value, r resized) Value {
	n := c.Dim(c.In(0), r.axis)
	eye := c.Op("EyeLike", nil, c.filled(0, c.joinInts(n, n), g))
	var attrs Attrs
	for _, name := range []string{"antialias", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
		"mode", "nearest_mode"} {
		if a := c.Node.Attr(name); a != nil {
			attrs = append(attrs, A(name, a.Value))
		}
	}
	one := c.floatVector(1)
	scales := None
	if r.scale != None {
		scales = c.joinFloats(one, r.scale)
	}
	if slot, _ := c.resizeSlots(); slot == 1 {
		return c.Op(c.Node.Op, attrs, eye, scales)
	}
	roi := None
	if c.j.opset() < 13 { // these inputs are not optional there
		roi = c.floatVector()
		if scales == None {
			scales = roi
		}
	}
	if r.scale != None {
		return c.Op("Resize", attrs, eye, roi, scales)
	}
	return c.Op("Resize", attrs, eye, roi, scales, c.joinInts(n, c.Dim(g, r.axis)))
}

// joinFloats joins two float vectors of one element; constants become one.
func (e *emitter) joinFloats(a, b Value) Value {
	x, y := e.knownFloats(a), e.knownFloats(b)
	if len(x) == 1 && len(y) == 1 {
		return e.floatVector(float32(x[0]), float32(y[0]))
	}
	return e.Concat(0, a, b)
}

// blockSums is the gradient of enlarging spatial axes to the nearest element by whole numbers, or
// None for any other node.
func (c *Ctx) blockSums(g Value) Value {
	slot, sizes := c.resizeSlots()
	rank := c.Rank(c.In(0))
	axes := c.resizeAxisList()
	if c.Node.Str("mode", "nearest") != "nearest" || sizes >= 0 || rank < 3 || rank > 5 || len(axes) != rank ||
		!c.repeats() {
		return None
	}
	scales := c.knownScales(slot)
	if len(scales) != rank || scales[0] != 1 || scales[1] != 1 {
		return None
	}
	kernel, size := make([]int64, rank-2), 1.0
	for i, s := range scales[2:] {
		if kernel[i] = int64(s); float64(kernel[i]) != s || s < 1 {
			return None
		}
		size *= s
	}
	return c.mathScale(c.Op("AveragePool", Attrs{A("kernel_shape", kernel), A("strides", kernel)}, g), size)
}

// repeats reports whether enlarging by whole numbers repeats every element.
func (c *Ctx) repeats() bool {
	if c.Version < 11 {
		return true
	}
	nearest := c.Node.Str("nearest_mode", "round_prefer_floor")
	switch c.Node.Str("coordinate_transformation_mode", "half_pixel") {
	case "asymmetric":
		return nearest == "floor"
	case "half_pixel":
		return nearest == "round_prefer_floor" || nearest == "round_prefer_ceil"
	}
	return false
}
