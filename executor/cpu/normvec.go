package cpu

import (
	"math"
	"slices"

	"memopt/executor"
	"memopt/executor/cpu/simd"
	"memopt/graph"
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

// normSingle views a slice of float32 as what it is.
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

// normAxpy adds s*x[i] to y[i].
func normAxpy[T normElem](y, x []T, s T) {
	if normIsSingle[T]() {
		simd.Axpy(normSingle(y), normSingle(x), float32(s))
		return
	}
	x = x[:len(y)]
	for i := range y {
		y[i] += T(x[i] * s)
	}
}

// normMaxWith sets m[i] to the larger of m[i] and a[i]; NaN stays and counts as larger.
func normMaxWith[T normElem](m, a []T) {
	a = a[:len(m)]
	for i, v := range a {
		if v > m[i] || v != v {
			m[i] = v
		}
	}
}

func normFill[T normElem](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}

// normGrain is a number of items that do about 16k elements of work, for items of n elements.
func normGrain(n int) int { return max(1, (1<<14)/max(n, 1)) }

// normAxis brings an axis into [0, rank).
func normAxis(c *executor.Ctx, axis int64, rank int) (int, error) {
	a := axis
	if a < 0 {
		a += int64(rank)
	}
	if a < 0 || a >= int64(rank) {
		return 0, c.Errorf("axis %d; input 0 has rank %d", axis, rank)
	}
	return int(a), nil
}

// normSameShape makes sure that two inputs have the same shape.
func normSameShape(c *executor.Ctx, i, j int) error {
	a, b := c.In(i), c.In(j)
	if !slices.Equal(a.Shape, b.Shape) {
		return c.Errorf("input %d is %v and input %d is %v; the shapes must be equal", i, a, j, b)
	}
	return nil
}

// normVector makes sure that an input that is given is a vector of n elements.
func normVector(c *executor.Ctx, i int, what string, n int) error {
	if t := c.In(i); t != nil && (t.Rank() != 1 || t.Shape[0] != n) {
		return c.Errorf("input %d, the %s, is %v, wanted a vector of %d elements", i, what, t, n)
	}
	return nil
}

// normData returns the elements of an input, nil where it is left out.
func normData[T normElem](c *executor.Ctx, i int) []T {
	if t := c.In(i); t != nil {
		return executor.Cast[T](t.Data)
	}
	return nil
}

// normOut gives an output its shape and returns its elements, nil where nobody wants it.
func normOut[T normElem](c *executor.Ctx, i int, shape ...int) []T {
	if t := c.Out(i, shape...); t != nil {
		return executor.Cast[T](t.Data)
	}
	return nil
}

// normOneType reports whether all operands that are given have the same type.
func normOneType(ds ...[]graph.DType) bool {
	first := graph.Undefined
	for _, list := range ds {
		for _, d := range list {
			switch {
			case d == graph.Undefined:
			case first == graph.Undefined:
				first = d
			case d != first:
				return false
			}
		}
	}
	return true
}
