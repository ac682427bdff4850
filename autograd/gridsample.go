package autograd

import (
	"slices"

	"memopt/graph"
)

// sampler is a GridSample as its rule sees it. A place takes taps from each axis, elements with weights, and
// the product of the axes' taps from the plane: K of them in all. A tap outside is mapped to an element on
// its own, which gives the same function as moving the place.
type sampler struct {
	*Ctx
	mode, padding string
	align         bool
	wide          graph.DType // of places and weights
	rank          int64       // spatial axes
	places        Value       // [N, P, rank], the coordinate of the last axis first
	x, grid       Value
	axes          []sampledAxis
}

// sampledAxis is one spatial axis: values are [N, P, 1…, T, 1…], with the taps at the axis's own place.
type sampledAxis struct {
	index, weight Value
	slope         Value // the derivatives of the weights by the coordinate of the grid
}

// gridSampleRule: dX has at each tap of each place the gradient times the weight, all added up; the grid has
// the sum over taps of the gradient, times the element, times the derivative of the weight. Places in
// mode nearest are rounded. Stashes the grid, and X for the gradient of the grid.
func gridSampleRule(c *Ctx) {
	s := &sampler{Ctx: c, mode: c.Node.Str("mode", "linear"), padding: c.Node.Str("padding_mode", "zeros"),
		align: c.Node.Int("align_corners", 0) != 0, x: c.In(0), grid: c.In(1), wide: graph.Float32}
	if c.DType(s.x) == graph.Float64 || c.DType(s.grid) == graph.Float64 {
		s.wide = graph.Float64
	}
	s.rank = int64(c.Rank(s.x)) - 2
	if s.mode == "nearest" {
		c.Set(1, None)
	}
	if !c.Wants(0) && (s.mode == "nearest" || !c.Wants(1)) {
		return
	}
	c.need(scatterReduce)
	s.places = c.Cast(c.Reshape(s.grid, c.Vector(0, -1, s.rank)), s.wide)
	for a := range s.rank {
		s.axes = append(s.axes, s.axis(a))
	}
	g := c.Cast(c.Reshape(c.Grad(0), c.Vector(0, 0, -1, 1)), s.wide) // [N, C, P, 1]
	at := s.flat()
	if c.Wants(0) {
		c.Set(0, s.data(g, at))
	}
	if c.Wants(1) && s.mode != "nearest" {
		c.Set(1, s.coordinates(g, at))
	}
}

// length is that of an axis, a scalar in the type of places.
func (s *sampler) length(axis int64) Value {
	return s.Cast(s.Squeeze(s.Dim(s.x, 2+axis), 0), s.wide)
}

// axis finds the taps of a spatial axis.
func (s *sampler) axis(a int64) sampledAxis {
	n := s.length(a)
	g := s.Squeeze(s.sliceAxis(s.places, 2, s.rank-1-a, s.rank-a), 2)
	span := n // the movement of the place for a step of 2 in the grid
	if s.align {
		span = s.mathShift(n, -1)
	}
	x := s.mathScale(s.Mul(s.mathShift(g, 1), span), 0.5)
	if !s.align {
		x = s.mathShift(x, -0.5)
	}
	near := s.mathBelow(s.mathOf("Abs", x), 1<<40) // false for NaN
	x = s.mathIf(near, x)
	base := s.mathOf(map[bool]string{true: "Round", false: "Floor"}[s.mode == "nearest"], x)
	offsets, weights, slopes := s.weigh(s.Unsqueeze(s.Sub(x, base), 2))
	index, counts := s.inside(s.Add(s.Unsqueeze(base, 2), offsets), n)
	counts = s.Op("And", nil, counts, s.Unsqueeze(near, 2))
	out := sampledAxis{index: index, weight: s.mathIf(counts, weights), slope: None}
	if slopes != None {
		out.slope = s.mathIf(counts, s.Mul(slopes, s.mathScale(span, 0.5)))
	}
	for _, v := range []*Value{&out.index, &out.weight, &out.slope} {
		if *v != None {
			*v = s.Unsqueeze(*v, slices.Concat(axesFrom(2, 2+a), axesFrom(3+a, 2+s.rank))...)
		}
	}
	return out
}

// weigh returns the offsets of the taps from the element before the place, their weights for a distance
// r from it, [N, P, 1], and the derivatives of the weights by r.
func (s *sampler) weigh(r Value) (offsets, weights, slopes Value) {
	one := s.Scalar(1, r)
	switch s.mode {
	case "nearest":
		return s.list(0), s.Op("Expand", nil, one, s.Shape(r)), None
	case "linear", "bilinear":
		minus := s.Op("Expand", nil, s.Scalar(-1, r), s.Shape(r))
		return s.list(0, 1), s.Concat(2, s.Sub(one, r), r), s.Concat(2, minus, s.Neg(minus))
	}
	// Keys' kernel with a = -3/4, at distances 1+r, r, 1-r and 2-r: near below 1, far above.
	offsets = s.list(-1, 0, 1, 2)
	signed := s.Sub(r, offsets)
	d := s.mathOf("Abs", signed)
	near := s.polynomial(d, 1.25, -2.25, 0, 1)
	far := s.polynomial(d, -0.75, 3.75, -6, 3)
	close := s.Op("Not", nil, s.mathAbove(d, 1))
	slope := s.mathWhere(close, s.polynomial(d, 3.75, -4.5, 0), s.polynomial(d, -2.25, 7.5, -6))
	return offsets, s.mathWhere(close, near, far), s.Mul(slope, s.mathSign(signed))
}

// polynomial has the given coefficients, the highest power first.
func (s *sampler) polynomial(x Value, factors ...float64) Value {
	sum := s.mathScale(x, factors[0])
	for i, f := range factors[1:] {
		if sum = s.mathShift(sum, f); i < len(factors)-2 {
			sum = s.Mul(sum, x)
		}
	}
	return sum
}

// list is a constant vector in the type of places.
func (s *sampler) list(elems ...float64) Value {
	var raw []byte
	for _, x := range elems {
		one, err := scalarBytes(s.wide, x)
		s.must(err)
		raw = append(raw, one...)
	}
	return s.j.constant(&graph.TensorData{DType: s.wide, Dims: []int64{int64(len(elems))}, Source: graph.Raw(raw)})
}

// inside maps indices of an axis of length n to elements, and says which count: outside, the others are 0.
func (s *sampler) inside(i, n Value) (index, counts Value) {
	last, zero := s.mathShift(n, -1), s.Scalar(0, i)
	counts = s.mathEqual(i, i)
	switch {
	case s.padding == "zeros":
		counts = s.mathEqual(i, s.Op("Clip", nil, i, zero, last))
	case s.padding == "reflection" && s.align: // mirrors at 0 and n-1
		twice := s.Op("Max", nil, s.mathScale(last, 2), s.Scalar(1, i))
		turn := s.Op("Mod", Attrs{A("fmod", int64(1))}, s.mathOf("Abs", i), twice)
		i = s.Sub(last, s.mathOf("Abs", s.Sub(turn, last)))
	case s.padding == "reflection": // at -1/2 and n-1/2
		half := s.mathShift(n, -0.5)
		from := s.mathShift(s.mathOf("Abs", s.mathShift(i, 0.5)), -0.5)
		turn := s.Op("Mod", Attrs{A("fmod", int64(1))}, from, s.mathScale(n, 2))
		i = s.Sub(half, s.mathOf("Abs", s.Sub(turn, half)))
	}
	return s.Cast(s.Op("Clip", nil, i, zero, last), graph.Int64), counts
}

// flat is the place of each tap in its plane, [N, P, T…].
func (s *sampler) flat() Value {
	at := s.axes[0].index
	for a := int64(1); a < s.rank; a++ {
		at = s.Add(s.Mul(at, s.Squeeze(s.Dim(s.x, 2+a), 0)), s.axes[a].index)
	}
	return at
}

// weighed multiplies the weights of all axes; of one, if it is 0 or more, the derivative takes their place.
func (s *sampler) weighed(slope int64) Value {
	var out Value = None
	for a, axis := range s.axes {
		w := axis.weight
		if int64(a) == slope {
			w = axis.slope
		}
		if out == None {
			out = w
		} else {
			out = s.Mul(out, w)
		}
	}
	return out
}

// taps turns [N, P, T…] into [N, 1, P, K].
func (s *sampler) taps(v Value) Value {
	return s.Unsqueeze(s.Reshape(v, s.joinInts(s.placesShape(), s.Vector(-1))), 1)
}

// placesShape is the vector N, P.
func (s *sampler) placesShape() Value {
	return s.joinInts(s.Dim(s.places, 0), s.Dim(s.places, 1))
}

// elements are the places of the taps for each channel, [N, C, P·K].
func (s *sampler) elements(at Value) Value {
	at = s.Reshape(at, s.Vector(0, 1, -1))
	return s.Op("Expand", nil, at, s.joinInts(s.Vector(1), s.Dim(s.x, 1), s.Vector(1)))
}

// data is the gradient of X.
func (s *sampler) data(g, at Value) Value {
	updates := s.Reshape(s.Mul(g, s.taps(s.weighed(-1))), s.Vector(0, 0, -1))
	zeros := s.Reshape(s.zerosOf(s.ShapeOf(s.x), g), s.Vector(0, 0, -1))
	sum := s.Op("ScatterElements", Attrs{A("axis", int64(2)), A("reduction", "add")}, zeros, s.elements(at), updates)
	return s.Cast(s.Reshape(sum, s.ShapeOf(s.x)), s.DType(s.x))
}

// coordinates is the gradient of the grid.
func (s *sampler) coordinates(g, at Value) Value {
	x := s.Cast(s.Reshape(s.x, s.Vector(0, 0, -1)), s.wide)
	taken := s.Op("GatherElements", Attrs{A("axis", int64(2))}, x, s.elements(at))
	shape := s.joinInts(s.Dim(s.x, 0), s.Dim(s.x, 1), s.Dim(s.places, 1), s.Vector(-1))
	sum := s.ReduceSum(s.Mul(g, s.Reshape(taken, shape)), true, 1) // [N, 1, P, K]
	var parts []Value
	for a := s.rank - 1; a >= 0; a-- {
		parts = append(parts, s.ReduceSum(s.Mul(sum, s.taps(s.weighed(a))), true, 3))
	}
	return s.Cast(s.Reshape(s.Concat(3, parts...), s.ShapeOf(s.grid)), s.DType(s.grid))
}

// affineGridRule: the grid is θ times the places of the identity and a column of ones, so that dθ is the sum
// over places of the gradient times these. Stashes the size.
func affineGridRule(c *Ctx) {
	theta := c.In(0)
	rank, known := c.Ranked(theta, 3)[1].Const()
	if !known {
		c.Unsupported("the number of axes, dim 1 of %q, is not known before the run", c.j.g.ValueName(theta))
	}
	d := c.normType(theta)
	g := c.Cast(c.Reshape(c.Grad(0), c.Vector(0, -1, rank)), d)
	like := c.Cast(theta, d)
	identity := c.Op("EyeLike", nil, c.zerosOf(c.Vector(rank, rank+1), like))
	if d == graph.Float64 {
		identity = c.Op("EyeLike", Attrs{A("dtype", int64(d))}, c.zerosOf(c.Vector(rank, rank+1), like))
	}
	identity = c.Op("Expand", nil, identity, c.ShapeOf(theta))
	var attrs Attrs
	if a := c.Node.Attr("align_corners"); a != nil {
		attrs = Attrs{A("align_corners", a.Value)}
	}
	places := c.Reshape(c.Op("AffineGrid", attrs, identity, c.In(1)), c.Vector(0, -1, rank))
	ones := c.filled(1, c.joinInts(c.Dim(places, 0), c.Dim(places, 1), c.Vector(1)), places)
	c.Set(0, c.Cast(c.MatMul(c.Transpose(g, 0, 2, 1), c.Concat(2, places, ones)), c.DType(theta)))
}
