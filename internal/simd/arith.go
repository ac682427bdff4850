package simd

import "math"

// Add sets dst[i] = a[i] + b[i].
func Add(dst, a, b []float32) {
	if useAVX2 {
		n := len(dst)
		addAVX2(ptr(dst, n), ptr(a, n), ptr(b, n), n)
		return
	}
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// Sub sets dst[i] = a[i] - b[i].
func Sub(dst, a, b []float32) {
	if useAVX2 {
		n := len(dst)
		subAVX2(ptr(dst, n), ptr(a, n), ptr(b, n), n)
		return
	}
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

// Mul sets dst[i] = a[i] * b[i].
func Mul(dst, a, b []float32) {
	if useAVX2 {
		n := len(dst)
		mulAVX2(ptr(dst, n), ptr(a, n), ptr(b, n), n)
		return
	}
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

// Div sets dst[i] = a[i] / b[i].
func Div(dst, a, b []float32) {
	if useAVX2 {
		n := len(dst)
		divAVX2(ptr(dst, n), ptr(a, n), ptr(b, n), n)
		return
	}
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

// MaxOf sets dst[i] to the larger of a[i] and b[i]; NaN if one is. +0 is larger than -0.
func MaxOf(dst, a, b []float32) {
	if useAVX2 {
		n := len(dst)
		maxOfAVX2(ptr(dst, n), ptr(a, n), ptr(b, n), n)
		return
	}
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

// MinOf sets dst[i] to the smaller of a[i] and b[i]; NaN if one is. -0 is smaller than +0.
func MinOf(dst, a, b []float32) {
	if useAVX2 {
		n := len(dst)
		minOfAVX2(ptr(dst, n), ptr(a, n), ptr(b, n), n)
		return
	}
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}

// AddScalar sets dst[i] = a[i] + s.
func AddScalar(dst, a []float32, s float32) {
	if useAVX2 {
		n := len(dst)
		addScalarAVX2(ptr(dst, n), ptr(a, n), n, s)
		return
	}
	for i := range dst {
		dst[i] = a[i] + s
	}
}

// MulScalar sets dst[i] = a[i] * s.
func MulScalar(dst, a []float32, s float32) {
	if useAVX2 {
		n := len(dst)
		mulScalarAVX2(ptr(dst, n), ptr(a, n), n, s)
		return
	}
	for i := range dst {
		dst[i] = a[i] * s
	}
}

// ScaleShift sets dst[i] = a[i]*s + t, rounded after each step.
func ScaleShift(dst, a []float32, s, t float32) {
	if useAVX2 {
		n := len(dst)
		scaleShiftAVX2(ptr(dst, n), ptr(a, n), n, s, t)
		return
	}
	for i := range dst {
		dst[i] = float32(a[i]*s) + t
	}
}

// MulAdd sets dst[i] = a[i]*b[i] + c[i], rounded after each step.
func MulAdd(dst, a, b, c []float32) {
	if useAVX2 {
		n := len(dst)
		mulAddAVX2(ptr(dst, n), ptr(a, n), ptr(b, n), ptr(c, n), n)
		return
	}
	for i := range dst {
		dst[i] = float32(a[i]*b[i]) + c[i]
	}
}

// Axpy adds s*x[i] to y[i], rounded after each step.
func Axpy(y, x []float32, s float32) {
	if useAVX2 {
		n := len(y)
		axpyAVX2(ptr(y, n), ptr(x, n), n, s)
		return
	}
	for i := range y {
		y[i] += float32(x[i] * s)
	}
}

// Relu sets dst[i] = max(a[i], 0); NaN stays.
func Relu(dst, a []float32) {
	if useAVX2 {
		n := len(dst)
		reluAVX2(ptr(dst, n), ptr(a, n), n)
		return
	}
	for i := range dst {
		dst[i] = max(a[i], 0)
	}
}

// Sqrt sets dst[i] to the square root of a[i], rounded correctly.
func Sqrt(dst, a []float32) {
	if useAVX2 {
		n := len(dst)
		sqrtAVX2(ptr(dst, n), ptr(a, n), n)
		return
	}
	for i := range dst {
		dst[i] = float32(math.Sqrt(float64(a[i])))
	}
}
