package autograd

import "memopt/graph"

// With the transform y = F·x of complex numbers, and the gradients of real and imaginary parts as one complex
// number, dx = Fᴴ·dy: n times the inverse transform of dy. A real operand takes the real part. Frequencies
// that the transform leaves out have a gradient of zero, and padding has no gradient.

// dft is a transform along an axis.
type dft struct {
	length            Value // of the transform, a scalar of int64
	axis              int64
	inverse, onesided bool
}

// fourier emits a DFT.
func (e *emitter) fourier(v Value, d dft) Value {
	attrs := Attrs{A("inverse", flag(d.inverse)), A("onesided", flag(d.onesided))}
	if e.j.opset() >= 20 {
		return e.Op("DFT", attrs, v, d.length, e.Int(d.axis))
	}
	e.need(17)
	return e.Op("DFT", append(attrs, A("axis", d.axis)), v, d.length)
}

// dftRule: a transform back of the gradient. Stashes lengths alone.
func dftRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	rank := c.Rank(x)
	inverse, onesided := c.Node.Int("inverse", 0) != 0, c.Node.Int("onesided", 0) != 0
	d := dft{axis: c.dftAxis(rank)}
	d.length = c.dftLength(d.axis, inverse && onesided)
	dx, n := None, c.Cast(d.length, c.DType(g))
	switch {
	case inverse && onesided: // a real signal: each frequency but 0 and the middle counts twice
		d.onesided = true
		dx = c.Mul(c.fourier(g, d), c.twice(d.length, int64(rank)-d.axis-1, g))
		dx = c.Div(dx, n)
	case inverse:
		dx = c.Div(c.fourier(g, d), n)
	default:
		d.inverse = true
		dx = c.Mul(c.fourier(g, d), n)
	}
	if parts, known := c.Ranked(x, 2)[rank-1].Const(); !known {
		c.Unsupported("the last dim of %q, real or complex, is not known before the run", c.j.g.ValueName(x))
	} else if parts == 1 {
		dx = c.sliceAxis(dx, int64(rank)-1, 0, 1)
	}
	c.Set(0, c.fitted(dx, x, d.axis))
}

// dftAxis is the axis that is transformed.
func (c *Ctx) dftAxis(rank int) int64 {
	axis := c.Node.Int("axis", 1)
	if c.Version >= 20 {
		axis = -2
		if c.Has(2) {
			ints, known := c.intsOf(c.In(2))
			if !known || len(ints) != 1 {
				c.Unsupported("its axis is not known before the run")
			}
			axis = ints[0]
		}
	}
	return c.Axis(axis, rank)
}

// dftLength is the length of the transform, a scalar: if it is not given, that of the axis; for the inverse
// of a one-sided one the even length that has so many frequencies.
func (c *Ctx) dftLength(axis int64, real bool) Value {
	if c.Has(1) {
		return c.Reshape(c.Cast(c.In(1), graph.Int64), c.Vector())
	}
	n := c.Squeeze(c.Dim(c.In(0), axis), 0)
	if real {
		return c.Mul(c.Sub(n, c.Int(1)), c.Int(2))
	}
	return n
}

// twice is 2 for the frequencies of a one-sided transform of length n, but 1 for 0 and for the middle one of
// an even length, with behind axes of 1 behind it.
func (c *Ctx) twice(n Value, behind int64, like Value) Value {
	half := c.Add(c.Op("Div", nil, n, c.Int(2)), c.Int(1))
	k := c.Op("Range", nil, c.Int(0), half, c.Int(1))
	single := c.Op("Or", nil, c.Op("Equal", nil, k, c.Int(0)), c.Op("Equal", nil, c.Mul(k, c.Int(2)), n))
	factor := c.Where(single, c.Scalar(1, like), c.Scalar(2, like))
	return c.Unsqueeze(factor, axesFrom(1, behind+1)...)
}

// fitted cuts an axis to the length that it has in like, or puts zeros behind it.
func (c *Ctx) fitted(v, like Value, axis int64) Value {
	have, known := c.Ranked(v, 1)[axis].Const()
	want, known2 := c.Ranked(like, 1)[axis].Const()
	rank := c.Rank(like)
	if known && known2 {
		pads := make([]int64, 2*rank)
		pads[rank+int(axis)] = want - have
		return c.padZeros(v, pads)
	}
	behind := make([]Value, 0, rank)
	for i := range int64(rank) {
		if i == axis {
			behind = append(behind, c.Sub(c.Dim(like, axis), c.Dim(v, axis)))
		} else {
			behind = append(behind, c.Vector(0))
		}
	}
	return c.Op("Pad", nil, v, c.Concat(0, append([]Value{c.Vector(make([]int64, rank)...)}, behind...)...))
}

// stftRule: each frame's gradient is transformed back; times the window it is added to the signal where the
// frame lies, and times the signal, summed over frames, it is the window's. Stashes the window, and the
// signal for the gradient of the window.
func stftRule(c *Ctx) {
	x, g := c.In(0), c.Grad(0)
	rank := c.Rank(x)
	if rank == 2 {
		x = c.Unsqueeze(x, 2)
	}
	parts, known := c.Ranked(x, 3)[2].Const()
	if !known {
		c.Unsupported("the last dim of %q, real or complex, is not known before the run", c.j.g.ValueName(x))
	}
	length := c.frameLength(x)
	back := c.Mul(c.fourier(g, dft{length: length, axis: 2, inverse: true}), c.Cast(length, c.DType(g)))
	back = c.sliceAxis(back, 3, 0, parts) // [batch, frames, length, parts]
	step := c.Cast(c.Reshape(c.In(1), c.Vector()), graph.Int64)
	starts := c.Unsqueeze(c.Mul(c.iota(c.Dim(g, 1)), step), 1)
	places := c.Add(starts, c.Unsqueeze(c.Op("Range", nil, c.Int(0), length, c.Int(1)), 0))
	if c.Wants(2) {
		frames := c.Op("Gather", Attrs{A("axis", int64(1))}, x, places)
		c.Set(2, c.ReduceSum(c.Mul(back, frames), false, 0, 1, 3))
	}
	if !c.Wants(0) {
		return
	}
	if c.Has(2) {
		back = c.Mul(back, c.Unsqueeze(c.In(2), 1))
	}
	dx := c.scatterAlong(back, places, 1, c.Dim(x, 1), true)
	if rank == 2 {
		dx = c.Squeeze(dx, 2)
	}
	c.Set(0, dx)
}

// frameLength is the length of a frame, a scalar.
func (c *Ctx) frameLength(signal Value) Value {
	switch {
	case c.Has(3):
		return c.Reshape(c.Cast(c.In(3), graph.Int64), c.Vector())
	case c.Has(2):
		return c.Squeeze(c.Dim(c.In(2), 0), 0)
	}
	return c.Squeeze(c.Dim(signal, 1), 0)
}
