// Package simd has the inner loops of float32 kernels. On amd64 with AVX2 they are
// assembly; everywhere else, and as the reference, Go that gives the same bits.
//
// The slices of a call have the length of the first one. dst may be one of the sources,
// and must not overlap them otherwise. Results do not depend on addresses. Functions of one variable stay within 2 ulps
// (4 for Tanh, Erf, Sigmoid and Gelu) of the true value and handle infinities, NaN and
// subnormal numbers as package math does.
package simd

import "math"

// Add sets dst[i] = a[i] + b[i].
func Add(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// Sub sets dst[i] = a[i] - b[i].
func Sub(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

// Mul sets dst[i] = a[i] * b[i].
func Mul(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// Div sets dst[i] = a[i] / b[i].
func Div(dst, a, b []float32) {
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

// AddScalar sets dst[i] = a[i] + s.
func AddScalar(dst, a []float32, s float32) {
	for i := range dst {
		dst[i] = a[i] + s
	}
}

// MulScalar sets dst[i] = a[i] * s.
func MulScalar(dst, a []float32, s float32) {
	for i := range dst {
		dst[i] = a[i] * s
	}
}

// ScaleShift sets dst[i] = a[i]*s + t, rounded after each step.
func ScaleShift(dst, a []float32, s, t float32) {
	for i := range dst {
		p := a[i] * s
		dst[i] = p + t
	}
}

// MulAdd sets dst[i] = a[i]*b[i] + c[i], rounded after each step.
func MulAdd(dst, a, b, c []float32) {
	for i := range dst {
		p := a[i] * b[i]
		dst[i] = p + c[i]
	}
}

// Axpy adds s*x[i] to y[i], rounded after each step.
func Axpy(y, x []float32, s float32) {
	for i := range y {
		p := x[i] * s
		y[i] += p
	}
}

// Relu sets dst[i] = max(a[i], 0); NaN stays.
func Relu(dst, a []float32) {
	for i := range dst {
		dst[i] = max(a[i], 0)
	}
}

// Sqrt sets dst[i] to the square root of a[i].
func Sqrt(dst, a []float32) { each(dst, a, math.Sqrt) }

// Exp sets dst[i] = e^a[i].
func Exp(dst, a []float32) { each(dst, a, math.Exp) }

// Log sets dst[i] to the natural logarithm of a[i].
func Log(dst, a []float32) { each(dst, a, math.Log) }

// Tanh sets dst[i] to the hyperbolic tangent of a[i].
func Tanh(dst, a []float32) { each(dst, a, math.Tanh) }

// Erf sets dst[i] to the error function of a[i].
func Erf(dst, a []float32) { each(dst, a, math.Erf) }

// Sigmoid sets dst[i] = 1/(1+e^-a[i]).
func Sigmoid(dst, a []float32) {
	each(dst, a, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })
}

// Gelu sets dst[i] = a[i]/2 * (1 + erf(a[i]/√2)).
func Gelu(dst, a []float32) {
	each(dst, a, func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) })
}

// GeluTanh sets dst[i] to the approximation of Gelu by tanh:
// a[i]/2 * (1 + tanh(√(2/π) * (a[i] + 0.044715*a[i]³))).
func GeluTanh(dst, a []float32) {
	each(dst, a, func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	})
}

func each(dst, a []float32, f func(float64) float64) {
	for i := range dst {
		dst[i] = float32(f(float64(a[i])))
	}
}

// Lanes is the number of partial results of a reduction: element i goes to partial
// result i mod Lanes, and these are combined in pairs, lower half with upper half.
const Lanes = 16

// Sum returns the sum of a, in the order that Lanes describes.
func Sum(a []float32) float32 {
	var s [Lanes]float32
	for i, v := range a {
		s[i%Lanes] += v
	}
	return fold(&s)
}

// Dot returns the sum of a[i]*b[i], in the order that Lanes describes.
func Dot(a, b []float32) float32 {
	var s [Lanes]float32
	for i, v := range a {
		p := v * b[i]
		s[i%Lanes] += p
	}
	return fold(&s)
}

// SumSquares returns the sum of (a[i]-m)², in the order that Lanes describes.
func SumSquares(a []float32, m float32) float32 {
	var s [Lanes]float32
	for i, v := range a {
		d := v - m
		p := d * d
		s[i%Lanes] += p
	}
	return fold(&s)
}

func fold(s *[Lanes]float32) float32 {
	for n := Lanes / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[i+n]
		}
	}
	return s[0]
}

// Max returns the largest element of a, which is not empty; NaN if there is one.
func Max(a []float32) float32 {
	m := a[0]
	for _, v := range a[1:] {
		m = max(m, v)
	}
	return m
}

// ExpSum sets dst[i] = e^(a[i]-m) and returns the sum of dst, in the order that Lanes
// describes. Softmax is made of it.
func ExpSum(dst, a []float32, m float32) float32 {
	for i := range dst {
		dst[i] = a[i] - m
	}
	Exp(dst, dst)
	return Sum(dst)
}
