package cpu

import (
	"math"

	"memopt/executor"
	"memopt/internal/simd"
)

// normElem lists the element types that norms, softmaxes and losses compute in. The functions
// of this file run package simd's loops for float32, with its order of summation, and plain loops
// for float64. All slices of a call have the length of the first; dst may be a source.
type normElem interface{ float32 | float64 }

func normIsSingle[T normElem]() bool {
	var zero T
	_, ok := any(zero).(float32)
	return ok
}

// normSingle returns a, whose elements are float32, as []float32.
func normSingle[T normElem](a []T) []float32 { return executor.Cast[float32](executor.Memory(a)) }

func normSum[T normElem](a []T) T {
	if normIsSingle[T]() {
		return T(simd.Sum(normSingle(a)))
	}
	var s T
	for _, v := range a {
		s += v
	}
	return s
}

func normDot[T normElem](a, b []T) T {
	if normIsSingle[T]() {
		return T(simd.Dot(normSingle(a), normSingle(b)))
	}
	var s T
	b = b[:len(a)]
	for i, v := range a {
		s += T(v * b[i])
	}
	return s
}

// normSumSquares returns the sum of (a[i]-m)².
func normSumSquares[T normElem](a []T, m T) T {
	if normIsSingle[T]() {
		return T(simd.SumSquares(normSingle(a), float32(m)))
	}
	var s T
	for _, v := range a {
		d := v - m
		s += T(d * d)
	}
	return s
}

// normMax returns the largest element of a, which is not empty; NaN if there is one.
func normMax[T normElem](a []T) T {
	if normIsSingle[T]() {
		return T(simd.Max(normSingle(a)))
	}
	m := a[0]
	for _, v := range a {
		m = max(m, v)
	}
	return m
}

// normExpSum sets dst[i] = e^(a[i]-m) and returns the sum of dst.
func normExpSum[T normElem](dst, a []T, m T) T {
	if normIsSingle[T]() {
		return T(simd.ExpSum(normSingle(dst), normSingle(a), float32(m)))
	}
	var s T
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Exp(float64(a[i] - m)))
		s += dst[i]
	}
	return s
}

func normExp[T normElem](dst, a []T) {
	if normIsSingle[T]() {
		simd.Exp(normSingle(dst), normSingle(a))
		return
	}
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Exp(float64(a[i])))
	}
}

func normLog[T normElem](dst, a []T) {
	if normIsSingle[T]() {
		simd.Log(normSingle(dst), normSingle(a))
		return
	}
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Log(float64(a[i])))
	}
}

func normSqrt[T normElem](dst, a []T) {
	if normIsSingle[T]() {
		simd.Sqrt(normSingle(dst), normSingle(a))
		return
	}
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Sqrt(float64(a[i])))
	}
}

func normAdd[T normElem](dst, a, b []T) {
	if normIsSingle[T]() {
		simd.Add(normSingle(dst), normSingle(a), normSingle(b))
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func normSub[T normElem](dst, a, b []T) {
	if normIsSingle[T]() {
		simd.Sub(normSingle(dst), normSingle(a), normSingle(b))
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func normMul[T normElem](dst, a, b []T) {
	if normIsSingle[T]() {
		simd.Mul(normSingle(dst), normSingle(a), normSingle(b))
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func normDiv[T normElem](dst, a, b []T) {
	if normIsSingle[T]() {
		simd.Div(normSingle(dst), normSingle(a), normSingle(b))
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

func normAddScalar[T normElem](dst, a []T, s T) {
	if normIsSingle[T]() {
		simd.AddScalar(normSingle(dst), normSingle(a), float32(s))
		return
	}
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + s
	}
}

func normMulScalar[T normElem](dst, a []T, s T) {
	if normIsSingle[T]() {
		simd.MulScalar(normSingle(dst), normSingle(a), float32(s))
		return
	}
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * s
	}
}

// normScaleShift sets dst[i] = a[i]*s + t.
func normScaleShift[T normElem](dst, a []T, s, t T) {
	if normIsSingle[T]() {
		simd.ScaleShift(normSingle(dst), normSingle(a), float32(s), float32(t))
		return
	}
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = T(a[i]*s) + t
	}
}

// normMulAdd sets dst[i] = a[i]*b[i] + c[i].
func normMulAdd[T normElem](dst, a, b, c []T) {
	if normIsSingle[T]() {
		simd.MulAdd(normSingle(dst), normSingle(a), normSingle(b), normSingle(c))
		return
	}
	a, b, c = a[:len(dst)], b[:len(dst)], c[:len(dst)]
	for i := range dst {
		dst[i] = T(a[i]*b[i]) + c[i]
	}
}

// normMaxWith sets m[i] to the larger of m[i] and a[i]; NaN stays and counts as larger.
func normMaxWith[T normElem](m, a []T) {
	if normIsSingle[T]() {
		b := normSingle(m)
		simd.MaxOf(b, b, normSingle(a[:len(m)]))
		return
	}
	a = a[:len(m)]
	for i, v := range a {
		if v > m[i] || v != v {
			m[i] = v
		}
	}
}
