package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// reduceRule is the rule of reductions. The axes were an attribute before schema version since and
// are input 1 from then on. An empty list of axes means all axes, or no axis with
// noop_with_empty_axes. As in ONNX Runtime, the flags noop_with_empty_axes and keepdims are set if
// they are 1, and not if they are another number.
func reduceRule(since int, fold binary) func(*Ctx) {
	return func(c *Ctx) {
		in := c.Shape(0)
		keep := c.Int("keepdims", 1) == 1
		a := c.axesOf(1, since, in.Rank())
		if c.Failed() {
			return
		}
		if a.known && len(a.list) == 0 && a.count <= 0 {
			if c.Int("noop_with_empty_axes", 0) == 1 {
				c.Out(0, tensorOf(c.In(0)))
				c.passContents()
				return
			}
			if !keep {
				c.reduced(graph.Dims(), allAxes(in), keep, fold)
				return
			}
			a.list = allAxes(in)
		}
		c.reduced(reducedShape(in, a, keep), a.list, keep, fold)
	}
}

// reduced sets the type of output 0 and, where a fold is given, its contents.
func (c *Ctx) reduced(s graph.Shape, axes []int, keep bool, fold binary) {
	c.OutTensor(0, c.DType(0), s)
	if b, ok := c.block(0); ok && fold != nil && s.Known() && len(b.elems) > 0 {
		c.setBlock(0, b.reduce(axes, keep, fold))
	}
}

// allAxes lists the axes of a ranked shape.
func allAxes(s graph.Shape) []int {
	axes := make([]int, len(s.Dims))
	for i := range axes {
		axes[i] = i
	}
	return axes
}

// reducedShape makes the dims of the axes 1, or takes them away.
func reducedShape(in graph.Shape, a axesOf, keep bool) graph.Shape {
	switch {
	case !in.Ranked:
		return graph.Shape{}
	case a.known && keep:
		dims := slices.Clone(in.Dims)
		for _, axis := range a.list {
			dims[axis] = symbolic.Const(1)
		}
		return graph.Dims(dims...)
	case a.known:
		return dropAxes(in, a.list)
	case keep:
		return graph.UnknownDims(len(in.Dims))
	case a.count > 0 && a.count <= len(in.Dims):
		return graph.UnknownDims(len(in.Dims) - a.count)
	}
	return graph.Shape{}
}

// dropAxes returns the shape without the axes, which ascend.
func dropAxes(in graph.Shape, axes []int) graph.Shape {
	dims := make([]symbolic.Expr, 0, len(in.Dims))
	for i, d := range in.Dims {
		if _, drop := slices.BinarySearch(axes, i); !drop {
			dims = append(dims, d)
		}
	}
	return graph.Dims(dims...)
}

// reduce folds the elements along the axes.
func (b block) reduce(axes []int, keep bool, fold binary) block {
	kept := slices.Clone(b.dims)
	for _, axis := range axes {
		kept[axis] = 1
	}
	out := block{dims: kept, den: b.den, elems: make([]symbolic.Expr, size(kept))}
	seen := make([]bool, len(out.elems))
	at := 0
	eachIndex(b.dims, func(index []int) {
		to := out.stretched(index)
		if e := b.elems[at]; seen[to] {
			out.elems[to] = fold(out.elems[to], e)
		} else {
			out.elems[to], seen[to] = e, true
		}
		at++
	})
	return out // the flat elements are the same with and without the dims of 1
}

// argRule is the rule of ArgMax and ArgMin.
func argRule(c *Ctx) {
	in := c.Shape(0)
	c.want(0, numbers)
	c.Int("select_last_index", 0)
	keep := c.Int("keepdims", 1) == 1
	if !in.Ranked {
		c.OutTensor(0, graph.Int64, graph.Shape{})
		return
	}
	axis, ok := c.Axis("attribute axis", c.Int("axis", 0), len(in.Dims))
	if !ok {
		return
	}
	if keep {
		c.OutTensor(0, graph.Int64, with(in, axis, symbolic.Const(1)))
	} else {
		c.OutTensor(0, graph.Int64, without(in, axis))
	}
}

// cumSumRule: the result is like the input; the axis is a scalar input.
func cumSumRule(c *Ctx) {
	in := c.Shape(0)
	if axis, ok := c.Ints(1); ok && in.Ranked {
		if len(axis) != 1 {
			c.Errorf("input 1, the axis, has %d elements, wanted 1", len(axis))
			return
		}
		c.Axis("the axis", axis[0], len(in.Dims))
	}
	c.want(1, indices)
	c.Out(0, tensorOf(c.In(0)))
}
