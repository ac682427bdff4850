package simd

import "math"

// Coefficients of g in erfc(z) = e^-g, g = z*(erfC0 + erfC1*z + ...), for z <= 3.95, where
// erf is 1 in float32. The relative error of 1 - e^-g is 2^-27.9. They are a least-squares fit
// reweighted towards the minimax (Lawson's method), as are the others in this file.
const (
	erfC0 = 1.1283792
	erfC1 = 0.6366194
	erfC2 = 0.10277783
	erfC3 = -0.019153064
	erfC4 = -0.00016039617
	erfC5 = 0.0016670277
	erfC6 = -0.00063283707
	erfC7 = 0.00011764134
	erfC8 = -9.256273e-06

	erfHigh = 3.95
)

// erf returns the error function, as 1 - e^-g: errors of g count less the closer it is to 1.
func erf(x float32) float32 {
	z := abs(x)
	if z > erfHigh {
		z = erfHigh
	}
	g := float32(erfC8)
	g = float32(g*z) + erfC7
	g = float32(g*z) + erfC6
	g = float32(g*z) + erfC5
	g = float32(g*z) + erfC4
	g = float32(g*z) + erfC3
	g = float32(g*z) + erfC2
	g = float32(g*z) + erfC1
	g = float32(g*z) + erfC0
	r, k := reduce(-float32(g*z), 127)
	s := power(k)
	t := (1 - s) - float32(expm1(r)*s)
	return math.Float32frombits(math.Float32bits(t) | math.Float32bits(x)&(1<<31))
}

// Erf sets dst[i] to the error function of a[i], within 3.2 ulps.
func Erf(dst, a []float32) {
	n := len(dst)
	switch {
	case useAVX512:
		erfAVX512(ptr(dst, n), ptr(a, n), n)
	case useAVX2:
		erfAVX2(ptr(dst, n), ptr(a, n), n)
	default:
		for i := range dst {
			dst[i] = erf(a[i])
		}
	}
}

// Coefficients of e^(z²/2)*erfc(z/√2)/2 = q(z)/(√(2π)*z*q(z) + p(z)) for 0 <= z <= 14.6, of
// relative error 2^-25.9. q and p have a common factor that keeps them from just above powers of
// two, where rounding weighs most. For large z the quotient is 1/(√(2π)*z), and errors of q cancel.
const (
	geluQ0 = 0.75
	geluQ1 = 0.6861938
	geluQ2 = 0.29648894
	geluQ3 = 0.06833408
	geluQ4 = 0.0072937054

	geluP0 = 1.5
	geluP1 = 0.68924487
	geluP2 = 0.17286566
	geluP3 = 0.018201131
	geluP4 = 1.7832782e-06

	sqrt2Pi  = 2.5066283
	geluHigh = 14.5 // 14.5*erfc(14.5/√2)/2 rounds to zero
)

// halfSquare reduces e^(-z²/2): it splits -z²/2 = n*ln2 + r as reduce does. z² is taken as
// h² + (z-h)(z+h), where h is z cut to 12 bits and h² exact, as r needs its last bits.
func halfSquare(z, bias float32) (r, k float32) {
	h := math.Float32frombits(math.Float32bits(z) &^ 0xfff)
	low := float32((z - h) * (z + h))
	k = float32(float32(z*z)*(-log2e/2)) + (round + bias)
	n := k - (round + bias)
	r = float32(float32(h*h)*-0.5) - float32(n*ln2High)
	r -= float32(n*ln2Low) + float32(low*0.5)
	return r, k
}

// gelu returns x*Φ(x) as max(x, 0) - z*Φ(-z), z = |x|, which has no cancellation on the
// negative side. Φ(-z) = erfc(z/√2)/2 is kept times 2^64 until the end, where a
// subnormal result is rounded once. -Inf gives NaN, as -Inf*0 does in the formula.
func gelu(x float32) float32 {
	z := abs(x)
	if z > geluHigh {
		z = geluHigh
	}
	r, k := halfSquare(z, 127+64)
	q := float32(geluQ4)
	q = float32(q*z) + geluQ3
	q = float32(q*z) + geluQ2
	q = float32(q*z) + geluQ1
	q = float32(q*z) + geluQ0
	p := float32(geluP4)
	p = float32(p*z) + geluP3
	p = float32(p*z) + geluP2
	p = float32(p*z) + geluP1
	p = float32(p*z) + geluP0
	zq := float32(z * q)
	d := float32(zq*sqrt2Pi) + p
	t := float32(expm1(r)*zq) + zq
	return lessTail(x, float32(t*power(k))/d)
}

// lessTail returns max(x, 0) - tail*2^-64, and NaN for -Inf.
func lessTail(x, tail float32) float32 {
	m := x
	if m < 0 {
		m = float32(math.Copysign(0, -1)) // the sign that remains if the tail is zero
	}
	if math.IsInf(float64(x), -1) {
		return float32(math.NaN())
	}
	return m - float32(tail*twoNeg64)
}

// Gelu sets dst[i] = a[i]/2 * (1 + erf(a[i]/√2)), within 3.7 ulps.
func Gelu(dst, a []float32) {
	n := len(dst)
	switch {
	case useAVX512:
		geluAVX512(ptr(dst, n), ptr(a, n), n)
	case useAVX2:
		geluAVX2(ptr(dst, n), ptr(a, n), n)
	default:
		for i := range dst {
			dst[i] = gelu(a[i])
		}
	}
}

const (
	// 2√(2/π)/ln2 and its product with 0.044715.
	geluTanhA = 2.302208198144325
	geluTanhB = 0.10294323958002349

	round64      = 0x1.8p52 // as round, for float64
	geluTanhHigh = 11       // the tail at 11 rounds to zero
	ln2          = 0x1.62e43p-1
)

// geluTanh returns x/(1+e^-w), w = 2√(2/π)(x+0.044715x³), as max(x, 0) - z/(1+e^w(z)),
// z = |x|. w reaches 100 and its error is the relative error of e^w: it is computed, and
// split into integer and fraction, in float64.
func geluTanh(x float32) float32 {
	z := abs(x)
	if z > geluTanhHigh {
		z = geluTanhHigh
	}
	d := float64(z)
	w := float64(float64(d*d)*-geluTanhB) - geluTanhA
	w = float64(w * d)
	k := w + (round64 + 127 + 64)
	n := k - (round64 + 127 + 64)
	r := float32(float32(w-n) * ln2)
	s := math.Float32frombits(uint32(math.Float64bits(k)) << 23)
	e := float32((expm1(r) + 1) * s)
	return lessTail(x, float32(z*e)/(float32(e*twoNeg64)+1))
}

// GeluTanh sets dst[i] to the approximation of Gelu by tanh:
// a[i]/2 * (1 + tanh(√(2/π) * (a[i] + 0.044715*a[i]³))), within 3.2 ulps.
func GeluTanh(dst, a []float32) {
	n := len(dst)
	switch {
	case useAVX512:
		geluTanhAVX512(ptr(dst, n), ptr(a, n), n)
	case useAVX2:
		geluTanhAVX2(ptr(dst, n), ptr(a, n), n)
	default:
		for i := range dst {
			dst[i] = geluTanh(a[i])
		}
	}
}
