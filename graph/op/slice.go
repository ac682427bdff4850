package op

import (
	"math"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// toEnd is the smallest bound that exporters use for "to the end": the largest int32, or the
// largest int64, or a number near them.
const toEnd = math.MaxInt32

// cut is the range that a Slice takes of one axis.
type cut struct {
	axis       int
	start, end symbolic.Expr
	step       int64 // 0 where it is not known
}

// sliceRule: starts, ends and axes were attributes before version 10 and are inputs since,
// with steps.
func sliceRule(c *Ctx) {
	in := c.Shape(0)
	if !in.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	cuts, ok := c.cuts(len(in.Dims))
	if c.Failed() {
		return
	}
	if !ok {
		c.OutTensor(0, c.DType(0), graph.UnknownDims(len(in.Dims)))
		return
	}
	dims := slices.Clone(in.Dims)
	for _, k := range cuts {
		dims[k.axis] = k.length(in.Dims[k.axis])
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dims...))
	c.foldSlice(cuts)
}

// cuts lists the cuts of the named axes; ok is false if they are not known.
func (c *Ctx) cuts(rank int) (cuts []cut, ok bool) {
	starts, ends, ok := c.bounds()
	if c.Failed() {
		return nil, false
	}
	n := len(starts)
	if !ok {
		if n = c.cutCount(); n < 0 {
			return nil, false
		}
		starts, ends = unknowns(n), unknowns(n)
	}
	if len(ends) != n || n > rank && ok {
		c.Errorf("has %d starts and %d ends for rank %d", n, len(ends), rank)
		return nil, false
	}
	axes, ok := c.cutAxes(n, rank)
	if !ok {
		return nil, false
	}
	steps, ok := c.steps(n)
	if !ok {
		return nil, false
	}
	for i := range n {
		cuts = append(cuts, cut{axes[i], starts[i], ends[i], steps[i]})
	}
	return cuts, true
}

func unknowns(n int) []symbolic.Expr {
	out := make([]symbolic.Expr, n)
	for i := range out {
		out[i] = symbolic.Unknown()
	}
	return out
}

// bounds returns the starts and ends; ok is false where one list is not known.
func (c *Ctx) bounds() (starts, ends []symbolic.Expr, ok bool) {
	if c.Version >= 10 {
		c.want(1, indices)
		c.sameTypes(1, 2)
		starts, sok := c.Contents(1)
		ends, eok := c.Contents(2)
		switch {
		case sok && !eok:
			ends = unknowns(len(starts))
		case eok && !sok:
			starts = unknowns(len(ends))
		}
		return starts, ends, sok || eok
	}
	s, given := c.IntList("starts")
	e, also := c.IntList("ends")
	if !given || !also {
		c.Errorf("lacks the attributes starts and ends")
	}
	return constants(s), constants(e), true
}

// cutCount is the number of axes of a Slice with unknown bounds, or -1.
func (c *Ctx) cutCount() int {
	if n, ok := c.length(1); ok && n <= maxRank {
		return int(n)
	}
	return -1
}

// cutAxes returns the axes that are sliced; by default the first n.
func (c *Ctx) cutAxes(n, rank int) ([]int, bool) {
	raw, given := c.IntList("axes")
	if c.Version >= 10 {
		if given = c.Has(3); given {
			var ok bool
			if raw, ok = c.Ints(3); !ok {
				return nil, false
			}
		}
	}
	if !given {
		return allAxes(graph.UnknownDims(min(n, rank))), n <= rank
	}
	if len(raw) != n {
		c.Errorf("has %d starts and %d axes", n, len(raw))
		return nil, false
	}
	axes := make([]int, n)
	for i, x := range raw {
		axis, ok := c.Axis("an axis", x, rank)
		if !ok {
			return nil, false
		}
		if slices.Contains(axes[:i], axis) {
			c.Errorf("axes %v lists axis %d twice", raw, axis)
			return nil, false
		}
		axes[i] = axis
	}
	return axes, true
}

// steps returns a step per axis, 0 for one that is not known.
func (c *Ctx) steps(n int) ([]int64, bool) {
	out := make([]int64, n)
	if c.Version < 10 || !c.Has(4) {
		for i := range out {
			out[i] = 1
		}
		return out, true
	}
	elems, ok := c.Contents(4)
	if !ok {
		return out, true
	}
	if len(elems) != n {
		c.Errorf("has %d starts and %d steps", n, len(elems))
		return nil, false
	}
	for i, e := range elems {
		step, isConst := e.Const()
		if isConst && step == 0 {
			c.Errorf("step %d is 0", i)
			return nil, false
		}
		out[i] = max(step, -math.MaxInt64)
	}
	return out, true
}

// length returns how many of d elements the cut leaves.
func (k cut) length(d symbolic.Expr) symbolic.Expr {
	switch {
	case k.step == 0:
		return symbolic.Unknown()
	case k.step > 0:
		return k.lengthUp(d)
	}
	if d.IsConst(0) {
		return d
	}
	last := d.Sub(symbolic.Const(1))
	start := clampDown(k.start, d, last, symbolic.Const(0))
	end := clampDown(k.end, d, last, symbolic.Const(-1))
	return span(end, start, -k.step)
}

// lengthUp is length for positive steps. A start beyond d gives an empty result whether or not it
// is clamped to d, so it is not, which keeps the expression small; and the last x elements of d are
// min(x, d).
func (k cut) lengthUp(d symbolic.Expr) symbolic.Expr {
	end := clampUp(k.end, d)
	if n, ok := k.start.Const(); ok && end.Equal(d) && -toEnd < n && n < toEnd {
		if n >= 0 {
			return span(k.start, d, k.step)
		}
		return span(symbolic.Const(0), smaller(d, symbolic.Const(-n)), k.step)
	}
	start := clampUp(k.start, d)
	if nonNegative(k.start) {
		start = k.start
	}
	return span(start, end, k.step)
}

// span is the number of steps from low to high, 0 if high is below low.
func span(low, high symbolic.Expr, step int64) symbolic.Expr {
	n := high.Sub(low)
	if step != 1 {
		n = n.CeilDiv(symbolic.Const(step))
	}
	return larger(n, symbolic.Const(0))
}

// clampUp returns a bound of a slice with a positive step, counted from the start
// and held in [0, d].
func clampUp(x, d symbolic.Expr) symbolic.Expr {
	n, isConst := x.Const()
	switch {
	case isConst && n >= toEnd:
		return d
	case isConst && n <= -toEnd:
		return symbolic.Const(0)
	case x.Equal(d), isConst && n == 0:
		return x
	case nonNegative(x):
		return smaller(x, d)
	case nonNegative(x.Neg().Sub(symbolic.Const(1))): // below 0: counted from the end
		return larger(d.Add(x), symbolic.Const(0))
	}
	return symbolic.Unknown()
}

// clampDown returns a bound of a slice with a negative step, held in [low, last].
func clampDown(x, d, last, low symbolic.Expr) symbolic.Expr {
	n, isConst := x.Const()
	switch {
	case isConst && n >= toEnd:
		return last
	case isConst && n <= -toEnd:
		return low
	case nonNegative(x):
		return smaller(x, last)
	case nonNegative(x.Neg().Sub(symbolic.Const(1))):
		return larger(d.Add(x), low)
	}
	return symbolic.Unknown()
}

// foldSlice takes the elements of contents that the cuts leave.
func (c *Ctx) foldSlice(cuts []cut) {
	b, ok := c.block(0)
	if !ok {
		return
	}
	dims := slices.Clone(b.dims)
	from, step := make([]int, len(dims)), make([]int, len(dims))
	for i := range step {
		step[i] = 1
	}
	for _, k := range cuts {
		d := symbolic.Const(int64(b.dims[k.axis]))
		n, ok := k.length(d).Const()
		if !ok {
			return
		}
		first, ok := k.first(d)
		if !ok {
			return
		}
		dims[k.axis], from[k.axis], step[k.axis] = int(n), int(first), int(k.step)
	}
	st := strides(b.dims)
	if out, ok := b.pick(dims, func(index []int) int {
		at := 0
		for i, x := range index {
			at += (from[i] + x*step[i]) * st[i]
		}
		return at
	}); ok {
		c.setBlock(0, out)
	}
}

// first returns the first index of the cut.
func (k cut) first(d symbolic.Expr) (int64, bool) {
	if k.step > 0 {
		return clampUp(k.start, d).Const()
	}
	return clampDown(k.start, d, d.Sub(symbolic.Const(1)), symbolic.Const(0)).Const()
}
