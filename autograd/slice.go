package autograd

import (
	"math"

	"memopt/graph"
	"memopt/symbolic"
)

// bounds are the ranges that a Slice takes of its axes. The lists of numbers are nil if they are
// not known before the run; the values are None if the bounds are attributes.
type bounds struct {
	axes, starts, ends, steps        []int64
	startsAt, endsAt, axesAt, stepAt Value
}

// sliceRule: zeros outside of the slice. One axis with step 1 gives a part, more are padded, a
// reversed axis is reversed again, and along others the gradient is scattered to the places that the
// slice of 0, 1, 2, … names. Stashes the bounds; if dims are symbols, the input for its shape.
func sliceRule(c *Ctx) {
	if !c.Wants(0) {
		return
	}
	g, x := c.Grad(0), c.In(0)
	b, known := c.bounds()
	if !known {
		c.Set(0, c.unslice(g, x))
		return
	}
	dims, have := c.extentsOf(x, 0), c.extentsOf(c.Out(0), 0)
	var padded []int
	for i, axis := range b.axes {
		switch {
		case b.steps == nil:
			g = c.unstride(g, x, &b, i)
		case b.steps[i] == 1:
			padded = append(padded, i)
		case b.steps[i] == -1 && have[axis].length.Equal(dims[axis].length):
			g = c.reversed(g, axis)
		default:
			g = c.unstride(g, x, &b, i)
		}
	}
	if p, ok := c.slicePart(g, dims, have, &b, padded); ok {
		p.pad = func() Value { return c.padBack(g, x, &b, padded) }
		c.setPart(0, p)
		return
	}
	if len(padded) > 0 {
		g = c.padBack(g, x, &b, padded)
	}
	c.Set(0, g)
}

// unslice scatters the gradient to the places of all elements that the slice took, where the axes are not
// known before the run.
func (c *Ctx) unslice(g, x Value) Value {
	shape := c.Shape(x)
	flat := c.Unsqueeze(c.Op("Size", nil, x), 0)
	places := []Value{c.Reshape(c.iota(flat), shape)}
	for i := range c.Node.Inputs[1:] {
		places = append(places, c.In(i+1))
	}
	taken := c.Reshape(c.Op("Slice", nil, places...), c.Vector(-1))
	all := c.Op("ScatterElements", nil, c.zerosOf(flat, g), taken, c.Reshape(g, c.Vector(-1)))
	return c.Reshape(all, shape)
}

// slicePart is the gradient as that of a part of one axis; ok is false where more axes are cut, or it
// is not known where.
func (c *Ctx) slicePart(g Value, dims, have []extent, b *bounds, padded []int) (p part, ok bool) {
	if b.starts == nil || len(padded) < len(b.axes) {
		return p, false
	}
	i := b.onlyCut(dims, have)
	if i < 0 {
		return p, false
	}
	axis := b.axes[i]
	p = part{g: g, axis: axis, length: have[axis].length}
	p.first, ok = firstOf(b, i, dims[axis].length, p.length)
	return p, ok
}

// onlyCut is the index in the bounds of the one axis that may be cut, by the lengths before and
// after; -1 if no axis, or more than one, may be cut.
func (b *bounds) onlyCut(dims, have []extent) int {
	found := -1
	for i, axis := range b.axes {
		if b.starts[i] == 0 && have[axis].length.Equal(dims[axis].length) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

// firstOf is the beginning of a Slice that takes n places of an axis that is d long.
func firstOf(b *bounds, i int, d, n symbolic.Expr) (symbolic.Expr, bool) {
	start := b.starts[i]
	taken, known := n.Const()
	all, fixed := d.Const()
	switch {
	case !d.IsKnown() || !n.IsKnown():
		return d, false
	case start == 0:
		return symbolic.Const(0), true
	case b.ends != nil && b.ends[i] >= math.MaxInt32: // up to the end
		return d.Sub(n), true
	case start < 0:
		return symbolic.Const(max(start+all, 0)), fixed && known
	}
	return symbolic.Const(start), known && taken > 0 || n.Equal(d.Sub(symbolic.Const(start)))
}

// bounds reads the operands of the Slice; axes count from 0. known is false where they come at run time.
func (c *Ctx) bounds() (b bounds, known bool) {
	n := c.Node
	b = bounds{startsAt: None, endsAt: None, axesAt: None, stepAt: None}
	if c.Version < sliceInputs {
		b.starts, b.ends, b.axes = n.IntList("starts", nil), n.IntList("ends", nil), n.IntList("axes", nil)
		b.steps = ones(len(b.starts))
	} else {
		b.startsAt, b.endsAt, b.axesAt, b.stepAt = c.In(1), c.In(2), c.In(3), c.In(4)
		b.starts, _ = c.intsOf(b.startsAt)
		b.ends, _ = c.intsOf(b.endsAt)
		if b.axesAt != None {
			if b.axes, known = c.intsOf(b.axesAt); !known {
				return b, false
			}
		}
		if b.stepAt != None {
			b.steps, _ = c.intsOf(b.stepAt)
		}
	}
	if b.axes == nil {
		count, known := c.startCount(b.startsAt, len(b.starts))
		if !known {
			return b, false
		}
		for i := range count {
			b.axes = append(b.axes, int64(i))
		}
	}
	axes, rank := make([]int64, len(b.axes)), c.Rank(c.In(0))
	for i, a := range b.axes {
		axes[i] = c.Axis(a, rank)
	}
	b.axes = axes
	if b.stepAt == None {
		b.steps = ones(len(axes))
	}
	return b, true
}

// startCount is the number of starts: the length of the list if it has any, else that of the value.
func (c *Ctx) startCount(starts Value, listed int) (count int, known bool) {
	if listed > 0 || starts == None {
		return listed, true
	}
	if dims, ok := c.Dims(starts); ok && len(dims) == 1 {
		n, known := dims[0].Const()
		return int(n), known
	}
	return 0, false
}

func ones(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = 1
	}
	return list
}

// reversed turns an axis round.
func (c *Ctx) reversed(g Value, axis int64) Value {
	return c.Op("Slice", nil, g, c.Vector(-1), c.Vector(math.MinInt32), c.Vector(axis), c.Vector(-1))
}

// unstride scatters the gradient along the i-th sliced axis. No place occurs twice.
func (c *Ctx) unstride(g, x Value, b *bounds, i int) Value {
	axis := b.axes[i]
	length := c.Dim(x, axis)
	start, end := c.element(b.starts, b.startsAt, i), c.element(b.ends, b.endsAt, i)
	places := c.Op("Slice", nil, c.iota(length), start, end, c.Vector(0), c.element(b.steps, b.stepAt, i))
	return c.scatterAlong(g, places, axis, length, false)
}

// element is the i-th element of an operand as an int64 vector.
func (c *Ctx) element(list []int64, v Value, i int) Value {
	if list != nil {
		return c.Vector(list[i])
	}
	return c.Cast(c.Op("Gather", nil, v, c.Vector(int64(i))), graph.Int64)
}

// padBack puts zeros around the gradient along the axes with the given places in the bounds.
func (c *Ctx) padBack(g, x Value, b *bounds, which []int) Value {
	rank := c.Rank(x)
	if pads, ok := c.knownPads(x, b, which); ok {
		return c.padZeros(g, pads)
	}
	c.need(scatterFirst)
	shape := c.Shape(x)
	left := c.Sub(shape, c.ShapeOf(g)) // zero along the other axes
	before, inside := c.fullStarts(b, which, rank)
	if !inside {
		c.need(intExtrema)
		below := c.Op("Less", nil, before, c.Int(0))
		before = c.Op("Max", nil, c.Where(below, c.Add(before, shape), before), c.Int(0))
		before = c.Op("Min", nil, before, left)
	}
	return c.Op("Pad", nil, g, c.Concat(0, before, c.Sub(left, before)))
}

// fullStarts lists a start for every axis; inside says that all of them certainly lie within their
// axes, as 0 does, and as do starts of slices that are not empty.
func (c *Ctx) fullStarts(b *bounds, which []int, rank int) (v Value, inside bool) {
	full, inside := make([]int64, rank), b.starts != nil
	var axes, places []int64
	for _, i := range which {
		axis := b.axes[i]
		axes, places = append(axes, axis), append(places, int64(i))
		if b.starts != nil {
			full[axis] = b.starts[i]
			n, known := c.extentOf(c.Out(0), axis).length.Const()
			inside = inside && (full[axis] == 0 || full[axis] > 0 && known && n > 0)
		}
	}
	if b.starts != nil {
		return c.Vector(full...), inside
	}
	starts := c.Cast(c.Op("Gather", nil, b.startsAt, c.Vector(places...)), graph.Int64)
	return c.Op("ScatterElements", nil, c.Vector(full...), c.Vector(axes...), starts), false
}

// knownPads returns the zeros around the gradient where all lengths are numbers.
func (c *Ctx) knownPads(x Value, b *bounds, which []int) ([]int64, bool) {
	if b.starts == nil {
		return nil, false
	}
	rank := c.Rank(x)
	pads := make([]int64, 2*rank)
	have, want := c.extentsOf(c.Out(0), 0), c.extentsOf(x, 0)
	for _, i := range which {
		axis := b.axes[i]
		if b.starts[i] == 0 && have[axis].length.Equal(want[axis].length) {
			continue
		}
		n, ok := have[axis].length.Const()
		d, ok2 := want[axis].length.Const()
		if !ok || !ok2 {
			return nil, false
		}
		start := b.starts[i]
		if start < 0 {
			start = max(start+d, 0)
		}
		start = min(start, d-n)
		pads[axis], pads[int64(rank)+axis] = start, d-n-start
	}
	return pads, true
}
