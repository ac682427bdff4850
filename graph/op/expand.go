package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// expandRule broadcasts the input with a shape that input 1 lists.
func expandRule(c *Ctx) {
	c.want(1, indices)
	want := c.ShapeFrom(1)
	if c.Failed() {
		return
	}
	out := c.BroadcastShapes(c.Shape(0), want)
	c.OutTensor(0, c.DType(0), out)
	if b, ok := c.block(0); ok && !c.Failed() {
		c.spread(b, out)
	}
}

// spread sets contents that are stretched to a shape.
func (c *Ctx) spread(b block, to graph.Shape) {
	n, ok := to.Elements().Const()
	if !ok || n > maxContents || n < 0 {
		return
	}
	dims, ok := smallDims(to, int(n))
	if !ok {
		return
	}
	if out, ok := b.pick(dims, b.stretched); ok {
		c.setBlock(0, out)
	}
}

// tileRule repeats the input along its axes: as often as input 1 lists, or in
// version 1 along the one axis that input 2 names.
func tileRule(c *Ctx) {
	in := c.Shape(0)
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	repeats, ok := c.repeats(len(in.Dims))
	if c.Failed() {
		return
	}
	if !ok {
		c.OutTensor(0, c.DType(0), graph.UnknownDims(len(in.Dims)))
		return
	}
	if len(repeats) != len(in.Dims) {
		c.Errorf("has %d repeats for rank %d", len(repeats), len(in.Dims))
		return
	}
	dims := slices.Clone(in.Dims)
	for i, r := range repeats {
		if n, ok := r.Const(); ok && n < 0 {
			c.Errorf("repeat %d is %d", i, n)
			return
		}
		dims[i] = dims[i].Mul(r)
	}
	out := graph.Dims(dims...)
	c.OutTensor(0, c.DType(0), out)
	c.foldTile(out)
}

func (c *Ctx) repeats(rank int) ([]symbolic.Expr, bool) {
	if c.Version >= 6 {
		c.want(1, indices)
		return c.Contents(1)
	}
	count, cok := c.block(1)
	axis, aok := c.Ints(2)
	if !cok || !aok || len(count.elems) != 1 || len(axis) != 1 || count.den != 1 {
		return nil, false
	}
	at, ok := c.Axis("the axis", axis[0], rank)
	if !ok {
		return nil, false
	}
	out := slices.Repeat([]symbolic.Expr{symbolic.Const(1)}, rank)
	out[at] = count.elems[0]
	return out, true
}

func (c *Ctx) foldTile(to graph.Shape) {
	b, ok := c.block(0)
	if !ok {
		return
	}
	n, ok := to.Elements().Const()
	if !ok || n > maxContents || n < 0 {
		return
	}
	dims, ok := smallDims(to, int(n))
	if !ok {
		return
	}
	st := strides(b.dims)
	if out, ok := b.pick(dims, func(index []int) int {
		at := 0
		for i, x := range index {
			at += x % b.dims[i] * st[i]
		}
		return at
	}); ok {
		c.setBlock(0, out)
	}
}
