package autograd

import (
	"math"
	"slices"
)

// convRule: dX is the transposed convolution of dY with W; dW is a convolution of X with dY that
// swaps batch and channels as well as strides and dilations; dbias sums dY. Stashes X for dW and W
// for dX.
func convRule(c *Ctx) { c.convGradients(c.Grad(0)) }

// fusedConvRule: Conv and an activation, with Relu only. Stashes X and W, and the output for Relu.
// The fourth input is added before the activation.
func fusedConvRule(c *Ctx) {
	g := c.beforeActivation(c.Grad(0))
	c.Set(3, g)
	c.convGradients(g)
}

// convGradients gives the inputs of a Conv their gradients, from that of its result.
func (c *Ctx) convGradients(g Value) {
	x, w, group := c.In(0), c.In(1), c.Node.Int("group", 1)
	s := c.newSlide(x, g, c.kernelOf(w))
	c.channelBias(g)
	if c.Wants(1) {
		c.Set(1, c.kernelGradient(s, x, g, w, group))
	}
	if c.Wants(0) {
		c.Set(0, c.spread(s, g, w, x, group))
	}
}

// channelBias gives input 2, one number per channel, its gradient.
func (c *Ctx) channelBias(g Value) {
	if c.Wants(2) {
		c.Set(2, c.ReduceSum(g, false, c.channelAxes(g)...))
	}
}

// kernelGradient is the gradient of the kernel w [M, C/group, k…] that makes small [N, M, …] from
// large [N, C, …], where g is the gradient of the small one, or the other way round:
//
//	dw[m, c, k] = Σ over n and o of small[n, m, o]·large[n, c, o*stride - begin + k*dilation]
func (c *Ctx) kernelGradient(s *slide, large, small, w Value, group int64) Value {
	n := s.axes()
	swap := swapFirst(n + 2)
	right := c.Transpose(small, swap...)
	if group == 1 && s.pointwise() {
		large = c.everyStride(large, s)
		left := c.firstByRest(c.Transpose(large, swap...))
		return c.formVia(c.product(matrixView{c.firstByRest(right), false}, matrixView{left, true}, 1), w)
	}
	left := None
	if group == 1 {
		left = c.Transpose(large, swap...)
	} else {
		left = c.groupsSwapped(large, w, group)
	}
	turned := slide{strides: s.dilations, dilations: s.strides, begin: s.begin, end: s.end}
	y := c.Op("Conv", turned.attrs(group), left, right)
	for i := range n {
		if s.over[i] >= s.dilations[i] || s.open[i] && s.strides[i] > s.dilations[i] {
			y = c.crop(y, c.Vector(s.kernel...), n)
			break
		}
	}
	return c.Transpose(y, swap...)
}

// pointwise reports whether the kernel is one element, which is applied to every element that the
// strides lead to.
func (s *slide) pointwise() bool {
	for i, k := range s.kernel {
		if k != 1 || s.begin[i] != 0 || s.end[i] != 0 || s.over[i] >= s.strides[i] {
			return false
		}
	}
	return true
}

// everyStride keeps the elements of v that a pointwise kernel meets.
func (c *Ctx) everyStride(v Value, s *slide) Value {
	if !slices.ContainsFunc(s.strides, func(n int64) bool { return n > 1 }) {
		return v
	}
	n := s.axes()
	ends := slices.Repeat([]int64{math.MaxInt64}, n)
	return c.Op("Slice", nil, v, c.Vector(make([]int64, n)...), c.Vector(ends...), c.Vector(axesFrom(2, int64(n+2))...),
		c.Vector(s.strides...))
}

// swapFirst is the permutation that swaps the first two of rank axes.
func swapFirst(rank int) []int64 {
	perm := axesFrom(0, int64(rank))
	perm[0], perm[1] = 1, 0
	return perm
}

// firstByRest flattens all dims from the second on into one.
func (e *emitter) firstByRest(v Value) Value { return e.Reshape(v, e.Vector(0, -1)) }

// groupsSwapped turns [N, group·C, …] into [C, group·N, …]: the batch takes the place of the
// channels within each group.
func (c *Ctx) groupsSwapped(x, w Value, group int64) Value {
	dims := c.Ranked(w, 2)
	per, ok := dims[1].Const()
	if !ok {
		c.Unsupported("with groups and a number of channels that is not static")
	}
	split := c.Reshape(x, c.Vector(0, group, per, -1))
	turned := c.Transpose(split, 2, 1, 0, 3)
	return c.Reshape(turned, c.joinInts(c.Vector(per, -1), c.spatialDims(x)))
}

// convTransposeRule: the converse of convRule: dX is the convolution of dY with W, and dW is formed
// as there with X and dY swapped. Stashes X for dW and W for dX.
func convTransposeRule(c *Ctx) {
	x, w, g, group := c.In(0), c.In(1), c.Grad(0), c.Node.Int("group", 1)
	s := c.transposedSlide(x, g, c.kernelOf(w))
	c.channelBias(g)
	if c.Wants(1) {
		c.Set(1, c.kernelGradient(s, g, x, w, group))
	}
	if !c.Wants(0) {
		return
	}
	dx := c.Op("Conv", s.attrs(group), g, w)
	for i := range s.axes() {
		if s.over[i] >= s.strides[i] {
			dx = c.crop(dx, c.spatialDims(x), s.axes())
			break
		}
	}
	c.Set(0, dx)
}

// transposedSlide reads the attributes of a transposed convolution, which makes large from small.
func (c *Ctx) transposedSlide(small, large Value, kernel []int64) *slide {
	n := len(kernel)
	if n == 0 || c.Rank(small) != n+2 {
		c.Errorf("the kernel has %d axes, the data have rank %d", n, c.Rank(small))
	}
	s := c.slideAttrs(kernel)
	extra := c.listOr("output_padding", n, 0)
	mode := c.Node.Str("auto_pad", "NOTSET")
	in, out := c.Ranked(small, n+2), c.Ranked(large, n+2)
	for i := range n {
		end := s.end[i] - extra[i]
		if len(c.Node.IntList("output_shape", nil)) > 0 || mode == "SAME_UPPER" || mode == "SAME_LOWER" {
			have, ok := in[i+2].Const()
			want, ok2 := out[i+2].Const()
			if !ok || !ok2 {
				c.Unsupported("with output_shape or auto_pad and a size that is not static")
			}
			total := s.strides[i]*(have-1) + extra[i] + s.extent(i) - want
			s.begin[i] = total / 2
			if mode != "SAME_UPPER" {
				s.begin[i] = total - total/2
			}
			end = total - s.begin[i] - extra[i]
		}
		s.end[i], s.over[i] = max(end, 0), max(-end, 0)
	}
	return s
}
