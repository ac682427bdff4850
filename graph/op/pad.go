package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// padRule adds elements before and after each axis. The amounts were the attribute "paddings",
// then "pads", and are input 1 since version 11; since version 18 they may be for some axes only.
func padRule(c *Ctx) {
	in := c.Shape(0)
	pads, ok := c.pads()
	if c.Failed() {
		return
	}
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	axes := axesOf{list: allAxes(in), known: true}
	if c.Version >= 18 && c.Has(3) {
		raw, known := c.Ints(3)
		if axes.known = known; known {
			axes.list = c.eachAxis(raw, len(in.Dims))
		}
	}
	if c.Failed() {
		return
	}
	if !ok || !axes.known {
		c.OutTensor(0, c.DType(0), graph.UnknownDims(len(in.Dims)))
		return
	}
	if len(pads) != 2*len(axes.list) {
		c.Errorf("has %d pads for %d axes, wanted two per axis", len(pads), len(axes.list))
		return
	}
	dims := slices.Clone(in.Dims)
	for i, axis := range axes.list {
		dims[axis] = dims[axis].Add(pads[i]).Add(pads[i+len(axes.list)])
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}

// pads returns the amounts: all that go before, then all that go after.
func (c *Ctx) pads() ([]symbolic.Expr, bool) {
	if c.Version >= 11 {
		c.want(1, indices)
		return c.Contents(1)
	}
	name := "pads"
	if c.Version == 1 {
		name = "paddings"
	}
	list, given := c.IntList(name)
	if !given {
		c.Errorf("lacks the attribute %q", name)
	}
	return constants(list), true
}

// eachAxis maps axes in their listed order.
func (c *Ctx) eachAxis(raw []int64, rank int) []int {
	out := make([]int, 0, len(raw))
	for _, x := range raw {
		axis, ok := c.Axis("an axis", x, rank)
		if !ok {
			return nil
		}
		if slices.Contains(out, axis) {
			c.Errorf("axes %v lists axis %d twice", raw, axis)
			return nil
		}
		out = append(out, axis)
	}
	return out
}

// centerCropPadRule cuts or pads axes to the lengths that input 1 lists.
func centerCropPadRule(c *Ctx) {
	in := c.Shape(0)
	c.want(1, indices)
	want := c.ShapeFrom(1)
	raw, given := c.IntList("axes")
	if c.Failed() {
		return
	}
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	axes := allAxes(in)
	if given {
		axes = c.eachAxis(raw, len(in.Dims))
	}
	if c.Failed() {
		return
	}
	dims := slices.Clone(in.Dims)
	for i, axis := range axes {
		switch {
		case !want.Ranked:
			dims[axis] = symbolic.Unknown()
		case len(want.Dims) != len(axes):
			c.Errorf("has %d lengths for %d axes", len(want.Dims), len(axes))
			return
		default:
			dims[axis] = want.Dims[i]
		}
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
}
