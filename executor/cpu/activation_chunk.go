package cpu

import (
	"math"

	"memopt/internal/simd"
)

// Float32 functions built from several loops of package simd, chunk by chunk, with intermediate
// values in buffers.

// activationChunkLen is the number of elements of a chunk: a buffer of float32.
const activationChunkLen = elemBytes / 4

// inChunks makes a loop from a function that computes a chunk. The function has three buffers as
// long as dst, and may write dst[i] only once it no longer needs a[i]: dst may be a.
func inChunks(f func(dst, a, t, u, v []float32)) func(dst, a []float32) {
	return func(dst, a []float32) {
		m := takeBuffers()
		for len(dst) > 0 {
			n := min(len(dst), activationChunkLen)
			f(dst[:n], a[:n], elemFloats[float32](&m.b[0], n), elemFloats[float32](&m.b[1], n),
				elemFloats[float32](&m.b[2], n))
			dst, a = dst[n:], a[n:]
		}
		m.giveBack()
	}
}

// softplusChunk: max(x,0) + log(1+e^-|x|).
func softplusChunk(dst, a, t, u, _ []float32) {
	for i, x := range a {
		t[i] = -float32(math.Abs(float64(x)))
	}
	simd.Exp(t, t)
	log1p(t, t, u)
	for i, x := range a {
		dst[i] = max(x, 0) + t[i]
	}
}

// log1p sets dst[i] = log(1+a[i]) for a[i] in [0,1]. 1+a[i] is rounded, to w; the logarithm of w
// changes with w as that of 1+a[i] does, so the slope log(w)/(w-1) makes up for the rounding.
func log1p(dst, a, u []float32) {
	for i, x := range a {
		u[i] = 1 + x
	}
	simd.Log(u, u)
	for i, x := range a {
		w := 1 + x
		dst[i] = elemPick(w == 1, x, u[i]*(x/(w-1)))
	}
}

// expm1 sets dst[i] = e^a[i]-1 for a[i] in [-30,0]. The slope makes up for the rounding of e^a[i],
// as in log1p. dst and u are not a.
func expm1(dst, a, u []float32) {
	simd.Exp(dst, a)
	simd.Log(u, dst)
	for i, w := range dst {
		d := w - 1
		dst[i] = elemPick(d == 0, a[i], d*(a[i]/u[i]))
	}
}

// expUnitChunk: see expUnit. e^-30 vanishes beside 1.
func expUnitChunk(dst, a, t, u, low []float32, c expUnit) {
	inner, negative, positive := float32(c.inner), float32(c.negative), float32(c.positive)
	for i, x := range a {
		low[i] = max(min(x, 0)*inner, -30)
	}
	expm1(t, low, u)
	for i, x := range a {
		p := max(x, 0) * positive
		q := t[i] * negative
		dst[i] = p + q
	}
}

// mishChunk: x*tanh(log(1+e^x)), which is x*q/(q+2) with e = e^x and q = e*(e+2). From 20 on the
// quotient is 1.
func mishChunk(dst, a, t, _, _ []float32) {
	for i, x := range a {
		t[i] = min(x, 20)
	}
	simd.Exp(t, t)
	for i, x := range a {
		e := t[i]
		q := e * (e + 2)
		dst[i] = x * (q / (q + 2))
	}
}

// swishChunk: x*sigmoid(alpha*x).
func swishChunk(dst, a, t []float32, alpha float32) {
	simd.MulScalar(t, a, alpha)
	simd.Sigmoid(t, t)
	simd.Mul(dst, a, t)
}
