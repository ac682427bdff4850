package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// reshapeRule: the new shape was an attribute before version 5 and is input 1 since. A 0 copies the
// dim of the input (unless allowzero says that it is a 0) and one -1 stands for the remaining
// elements.
func reshapeRule(c *Ctx) {
	in := c.Shape(0)
	var want graph.Shape
	if c.Version < 5 {
		list, _ := c.IntList("shape")
		want = graph.Ints(list...)
	} else {
		c.want(1, indices)
		want = c.ShapeFrom(1)
	}
	if c.Failed() {
		return
	}
	if !want.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	out := c.reshaped(in, want)
	if c.Failed() {
		return
	}
	c.OutTensor(0, c.DType(0), out)
	c.passContents()
}

// reshaped resolves the zeros and the -1 of a wanted shape.
func (c *Ctx) reshaped(in, want graph.Shape) graph.Shape {
	copyZeros := c.Int("allowzero", 0) == 0
	dims := make([]symbolic.Expr, len(want.Dims))
	free, unknown := -1, []int(nil)
	for i, d := range want.Dims {
		n, isConst := d.Const()
		switch {
		case isConst && n == -1 && free >= 0:
			c.Errorf("the wanted shape %v has more than one -1", want)
			return in
		case isConst && n == -1:
			free, d = i, symbolic.Unknown()
		case isConst && n < -1:
			c.Errorf("the wanted shape %v has the dim %d", want, n)
			return in
		case isConst && n == 0 && copyZeros:
			d = c.copiedDim(in, want, i)
		}
		if dims[i] = d; d.IsUnknown() {
			unknown = append(unknown, i)
		}
	}
	return c.fillFree(in, dims, unknown)
}

// copiedDim is the input's dim at the place of a 0.
func (c *Ctx) copiedDim(in, want graph.Shape, i int) symbolic.Expr {
	switch {
	case !in.Ranked:
		return symbolic.Unknown()
	case i >= len(in.Dims):
		c.Errorf("the wanted shape %v copies dim %d of the input, which has shape %v", want, i, in)
		return symbolic.Unknown()
	}
	return in.Dims[i]
}

// fillFree computes the one dim that the number of elements determines, or checks
// that number where every dim is known.
func (c *Ctx) fillFree(in graph.Shape, dims []symbolic.Expr, unknown []int) graph.Shape {
	switch {
	case len(unknown) == 0:
		c.sameElements(in, graph.Dims(dims...))
	case len(unknown) == 1 && in.Ranked:
		i := unknown[0]
		rest := append(append(make([]symbolic.Expr, 0, len(dims)), dims[:i]...), dims[i+1:]...)
		dims[i] = c.remaining(in, rest)
	}
	return graph.Dims(dims...)
}

// remaining divides the elements of a shape by those of the other dims. Dims
// that stand on both sides are struck out first, which keeps the quotient exact
// where products of expressions would not divide.
func (c *Ctx) remaining(in graph.Shape, rest []symbolic.Expr) symbolic.Expr {
	top, bottom := strike(in.Dims, rest)
	total, other := product(top), product(bottom)
	if !total.IsKnown() || !other.IsKnown() {
		return symbolic.Unknown()
	}
	if n, ok := other.Const(); ok && n == 0 {
		return symbolic.Const(0)
	}
	t, tConst := total.Const()
	o, oConst := other.Const()
	if tConst && oConst && t%o != 0 {
		c.Errorf("the %d elements of shape %v cannot be split by %d", t, in, o)
		return symbolic.Unknown()
	}
	return divide(total, other)
}

// strike removes common elements from two lists.
func strike(a, b []symbolic.Expr) (top, bottom []symbolic.Expr) {
	bottom = append(bottom, b...)
	for _, d := range a {
		found := -1
		for i, e := range bottom {
			if d.Equal(e) {
				found = i
				break
			}
		}
		if zero, ok := d.Const(); found < 0 || ok && zero == 0 {
			top = append(top, d)
			continue
		}
		bottom = append(bottom[:found], bottom[found+1:]...)
	}
	return top, bottom
}

// divide returns a quotient that legal runs have without remainder.
func divide(a, b symbolic.Expr) symbolic.Expr {
	if q, ok := a.ExactDiv(b); ok {
		return q
	}
	return a.FloorDiv(b)
}

// sameElements checks that two shapes hold the same number of elements as far as both
// are numbers.
func (c *Ctx) sameElements(in, out graph.Shape) {
	a, aok := in.Elements().Const()
	b, bok := out.Elements().Const()
	if aok && bok && a != b {
		c.Errorf("shape %v holds %d elements and the wanted shape %v holds %d", in, a, out, b)
	}
}

// flattenRule: a matrix of the dims before and from an axis on.
func flattenRule(c *Ctx) {
	in := c.Shape(0)
	axis := c.Int("axis", 1)
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), graph.UnknownDims(2))
		return
	}
	rank := int64(len(in.Dims))
	if axis < -rank || axis > rank {
		c.Errorf("attribute axis is %d and the rank is %d; it must be in [%d, %d]", axis, rank, -rank, rank)
		return
	}
	if axis < 0 {
		axis += rank
	}
	c.OutTensor(0, c.DType(0), graph.Dims(product(in.Dims[:axis]), product(in.Dims[axis:])))
	c.passContents()
}

// squeezeRule takes away axes of length 1. Without a list of axes all of them go, which
// only numbers decide: a symbol may be 1 in some run.
func squeezeRule(c *Ctx) {
	in := c.Shape(0)
	a := c.axesOf(1, 13, in.Rank())
	if c.Failed() {
		return
	}
	switch {
	case !in.Ranked || a.given && !a.known:
		c.OutTensor(0, c.DType(0), reducedShape(in, a, false))
	case a.given:
		for _, axis := range a.list {
			if n, ok := in.Dims[axis].Const(); ok && n != 1 {
				c.Errorf("axis %d of shape %v cannot be squeezed: its length is not 1", axis, in)
				return
			}
		}
		c.OutTensor(0, c.DType(0), dropAxes(in, a.list))
	default:
		c.OutTensor(0, c.DType(0), squeezeAll(in))
	}
	c.passContents()
}

func squeezeAll(in graph.Shape) graph.Shape {
	var ones []int
	for i, d := range in.Dims {
		n, ok := d.Const()
		if !ok {
			return graph.Shape{}
		}
		if n == 1 {
			ones = append(ones, i)
		}
	}
	return dropAxes(in, ones)
}

// unsqueezeRule inserts axes of length 1; they count in the result.
func unsqueezeRule(c *Ctx) {
	in := c.Shape(0)
	raw, given, known := c.rawAxes(1, 13)
	if !given {
		c.Errorf("lacks the axes to insert")
		return
	}
	count := len(raw)
	if !known {
		n, ok := c.length(1)
		if !ok || !in.Ranked || n > maxRank {
			c.OutTensor(0, c.DType(0), graph.Shape{})
			return
		}
		c.OutTensor(0, c.DType(0), graph.UnknownDims(len(in.Dims)+int(n)))
		return
	}
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	a := c.axesOf(1, 13, len(in.Dims)+count)
	if c.Failed() {
		return
	}
	c.OutTensor(0, c.DType(0), insertOnes(in, a.list))
	c.passContents()
}

// insertOnes returns the shape with axes of length 1 at the given places, which ascend.
func insertOnes(in graph.Shape, axes []int) graph.Shape {
	dims := make([]symbolic.Expr, 0, len(in.Dims)+len(axes))
	rest := in.Dims
	for i := range len(in.Dims) + len(axes) {
		if len(axes) > 0 && axes[0] == i {
			dims, axes = append(dims, symbolic.Const(1)), axes[1:]
			continue
		}
		dims, rest = append(dims, rest[0]), rest[1:]
	}
	return graph.Dims(dims...)
}
