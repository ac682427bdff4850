package op

import (
	"math"

	"memopt/graph"
	"memopt/symbolic"
)

// dftRule: the axis gets the length of the transform, or as many frequencies as a one-sided one has; the
// last axis holds real and imaginary parts. The inverse of a one-sided transform is real.
func dftRule(c *Ctx) {
	c.want(0, floats)
	if c.Has(1) {
		c.wantScalar(1)
	}
	inverse, onesided := c.Int("inverse", 0) != 0, c.Int("onesided", 0) != 0
	s := c.Shape(0)
	if s.Ranked && len(s.Dims) < 2 {
		c.Errorf("input 0 has shape %v, wanted an axis to transform, and a last one for real and imaginary parts", s)
	}
	last := int64(2)
	switch parts, known := dimAt(s, -1).Const(); {
	case c.Failed():
		return
	case known && parts != 1 && parts != 2:
		c.Errorf("the last dim of input 0 is %d, wanted 1 for real numbers or 2 for complex ones", parts)
	case onesided && !inverse && known && parts == 2:
		c.Errorf("input 0 is complex, and only a real one has a one-sided transform")
	case onesided && inverse:
		if last = 1; known && parts == 1 {
			c.Errorf("input 0 is real, and the inverse of a one-sided transform is that of a complex input")
		}
	}
	axis, known := c.dftAxis(len(s.Dims))
	if c.Failed() || !s.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	out := append([]symbolic.Expr(nil), s.Dims...)
	out[len(out)-1] = symbolic.Const(last)
	for i := range out[:len(out)-1] {
		if !known {
			out[i] = symbolic.Unknown()
		} else if i == axis {
			out[i] = c.dftLength(s.Dims[i], inverse, onesided)
		}
	}
	c.OutTensor(0, c.DType(0), graph.Dims(out...))
}

// dftAxis is the axis that is transformed, an attribute before version 20.
func (c *Ctx) dftAxis(rank int) (axis int, known bool) {
	at := c.Int("axis", 1)
	if c.Version >= 20 {
		at = -2
		if c.Has(2) {
			c.wantScalar(2)
			ints, ok := c.Ints(2)
			if !ok || len(ints) != 1 {
				return 0, false
			}
			at = ints[0]
		}
	}
	if rank == 0 {
		return 0, false
	}
	if axis, known = c.Axis("the axis", at, rank); known && axis == rank-1 {
		c.Errorf("the axis is %d, the last one, which holds real and imaginary parts", at)
		known = false
	}
	return axis, known
}

// dftLength is the dim of the axis of a transform of an axis of length n.
func (c *Ctx) dftLength(n symbolic.Expr, inverse, onesided bool) symbolic.Expr {
	switch e, ok := c.Contents(1); {
	case c.Has(1) && (!ok || len(e) != 1):
		return symbolic.Unknown()
	case c.Has(1):
		if n = e[0]; !mayCount(n) {
			c.Errorf("the length of the transform (input 1) is %v, wanted 1 or more", n)
		}
	case onesided && inverse:
		n = symbolic.Const(2).Mul(n.Sub(symbolic.Const(1)))
	}
	if onesided && !inverse {
		n = oneSided(n)
	}
	return n
}

// mayCount reports whether a number may be 1 or more.
func mayCount(n symbolic.Expr) bool {
	v, known := n.Const()
	return !known || v >= 1
}

// oneSided is the number of frequencies of a real signal of length n that do not follow from others.
func oneSided(n symbolic.Expr) symbolic.Expr {
	if n.IsUnknown() {
		return n
	}
	return n.FloorDiv(symbolic.Const(2)).Add(symbolic.Const(1))
}

// stftRule: the transforms of frames of a signal, [batch, length, 1 or 2], or [batch, length] as exporters
// write real ones: [batch, frames, frequencies, 2].
func stftRule(c *Ctx) {
	c.want(0, floats)
	if c.Has(2) {
		c.sameTypes(0, 2)
	}
	if c.wantScalar(1); c.Has(3) {
		c.wantScalar(3)
	}
	if !c.rankIn(0, 2, 3) || c.Has(2) && !c.rankIn(2, 1) || c.Failed() {
		return
	}
	s, onesided := c.Shape(0), c.Int("onesided", 1) != 0
	if len(s.Dims) == 3 {
		switch parts, known := s.Dims[2].Const(); {
		case known && parts != 1 && parts != 2:
			c.Errorf("the last dim of input 0 is %d, wanted 1 for real numbers or 2 for complex ones", parts)
		case known && parts == 2 && onesided:
			c.Errorf("input 0 is complex, and only a real one has a one-sided transform: set onesided to 0")
		}
	}
	length, frame := dimAt(s, 1), c.frameLength(dimAt(s, 1))
	frames := symbolic.Unknown()
	if e, ok := c.Contents(1); ok && len(e) == 1 {
		if !mayCount(e[0]) {
			c.Errorf("the step between frames (input 1) is %v, wanted 1 or more", e[0])
		} else if step := e[0]; !step.IsUnknown() && !length.IsUnknown() && !frame.IsUnknown() {
			frames = length.Sub(frame).FloorDiv(step).Add(symbolic.Const(1))
		}
	}
	if n, ok := length.Sub(frame).Const(); ok && n < 0 {
		c.Errorf("a frame has %v elements and the signal %v", frame, length)
	}
	if c.Failed() {
		return
	}
	bins := frame
	if onesided {
		bins = oneSided(frame)
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dimAt(s, 0), frames, bins, symbolic.Const(2)))
}

// frameLength is the length of a frame: input 3, else that of the window, else that of the signal.
func (c *Ctx) frameLength(signal symbolic.Expr) symbolic.Expr {
	window := symbolic.Unknown()
	if c.Has(2) {
		window = dimAt(c.Shape(2), 0)
	}
	switch e, ok := c.Contents(3); {
	case c.Has(3) && ok && len(e) == 1:
		if !mayCount(e[0]) {
			c.Errorf("the length of a frame (input 3) is %v, wanted 1 or more", e[0])
		} else if c.Has(2) {
			return c.Unify("the length of a frame and that of the window", e[0], window)
		}
		return e[0]
	case c.Has(2) || c.Has(3):
		return window
	}
	return signal
}

// melWeightMatrixRule: a column for each band, a row for each frequency of a one-sided transform.
func melWeightMatrixRule(c *Ctx) {
	for i := range 5 {
		c.wantScalar(i)
	}
	dims := [2]symbolic.Expr{symbolic.Unknown(), symbolic.Unknown()}
	for i := range dims {
		if e, ok := c.Contents(i); ok && len(e) == 1 {
			if v, known := e[0].Const(); known && v < 0 {
				c.Errorf("input %d is %d, wanted no negative number", i, v)
			}
			dims[i] = e[0]
		}
	}
	if c.Failed() {
		return
	}
	c.OutTensor(0, c.DTypeAttr("output_datatype", graph.Float32), graph.Dims(oneSided(dims[1]), dims[0]))
}

// fourierFLOPs counts a fast transform of n elements as 5·n·log2(n) operations, and for a length that is
// no number as one of 1024.
func fourierFLOPs(c *Ctx) symbolic.Expr {
	s, steps := c.OutType(0).Shape, int64(10)
	if n, ok := dimAt(s, -2).Const(); ok && n > 1 {
		steps = int64(math.Ceil(math.Log2(float64(n))))
	}
	return s.Elements().Mul(symbolic.Const(5 * steps))
}
