package simd

import "math"

// Numbers of this package are written so that each is one float32.
const (
	log2e = 0x1.715476p+0 // 1/ln 2

	// ln 2 in two parts: products of the first with integers below 2^15 are exact.
	// Cody and Waite, Software Manual for the Elementary Functions, 1980.
	ln2High = 0.693359375
	ln2Low  = -0x1.bd0106p-13

	// Adding round to a number below 2^21 leaves the nearest integer in the low bits of
	// the sum's pattern: the sum lies where float32s are the integers.
	round = 0x1.8p23

	twoNeg64 = 0x1p-64

	expHigh = 89   // e^89 is above the largest float32
	expLow  = -104 // e^-104 rounds to zero
)

// Coefficients of q in e^r = 1 + r + r²*q(r) for |r| <= 0.3475, of relative error
// 2^-28.3: a least-squares fit reweighted towards the minimax (Lawson's method).
const (
	expC0 = 0.49999994
	expC1 = 0.1666652
	expC2 = 0.041668408
	expC3 = 0.008368899
	expC4 = 0.0013814218
)

// reduce splits x = n*ln2 + r with |r| < 0.3475. The low bits of k are n + bias: shifted
// into the exponent they make 2^(n+bias-127).
func reduce(x, bias float32) (r, k float32) {
	k = float32(x*log2e) + (round + bias)
	n := k - (round + bias)
	r = x - float32(n*ln2High)
	r -= float32(n * ln2Low)
	return r, k
}

// power makes 2^(n+bias-127) of the second result of reduce.
func power(k float32) float32 { return math.Float32frombits(math.Float32bits(k) << 23) }

// expm1 returns e^r - 1 for |r| < 0.3475.
func expm1(r float32) float32 {
	q := float32(expC4)
	q = float32(q*r) + expC3
	q = float32(q*r) + expC2
	q = float32(q*r) + expC1
	q = float32(q*r) + expC0
	return float32(float32(r*r)*q) + r
}

// abs returns |x|.
func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// exp returns e^x. The power 2^n is multiplied in two steps, so that a subnormal result is
// rounded once and that 2^128 is never needed: 2^(n+63) and 2^-63 for negative x,
// 2^(n-1) and 2 for others.
func exp(x float32) float32 {
	c := x
	if c < expLow {
		c = expLow
	}
	if c > expHigh {
		c = expHigh
	}
	r, k := reduce(c, 126)
	y := expm1(r) + 1
	t := math.Float32bits(x) & (1 << 31) >> 2
	s1 := math.Float32frombits(math.Float32bits(k)<<23 + t)
	s2 := math.Float32frombits(0x40000000 - t)
	return float32(float32(y*s1) * s2)
}

// Exp sets dst[i] = e^a[i], within 1 ulp.
func Exp(dst, a []float32) {
	n := len(dst)
	switch {
	case useAVX512:
		expAVX512(ptr(dst, n), ptr(a, n), n)
	case useAVX2:
		expAVX2(ptr(dst, n), ptr(a, n), n)
	default:
		for i := range dst {
			dst[i] = exp(a[i])
		}
	}
}

// ExpSum sets dst[i] = e^(a[i]-m) and returns the sum of dst, in the order that Lanes
// describes. Softmax uses it.
func ExpSum(dst, a []float32, m float32) float32 {
	n := len(dst)
	switch {
	case useAVX512:
		return expSumAVX512(ptr(dst, n), ptr(a, n), n, m)
	case useAVX2:
		return expSumAVX2(ptr(dst, n), ptr(a, n), n, m)
	}
	for i := range dst {
		dst[i] = exp(a[i] - m)
	}
	return Sum(dst)
}

// sigmoid returns 1/(1+e^-x), from e^-|x|: it and its quotients neither overflow nor cancel.
func sigmoid(x float32) float32 {
	z := abs(x)
	if z > -expLow {
		z = -expLow
	}
	r, k := reduce(-z, 127+64)
	e := float32(float32((expm1(r)+1)*power(k)) * twoNeg64)
	top := float32(1)
	if math.Signbit(float64(x)) {
		top = e
	}
	return top / (1 + e)
}

// Sigmoid sets dst[i] = 1/(1+e^-a[i]), within 2.5 ulps.
func Sigmoid(dst, a []float32) {
	n := len(dst)
	switch {
	case useAVX512:
		sigmoidAVX512(ptr(dst, n), ptr(a, n), n)
	case useAVX2:
		sigmoidAVX2(ptr(dst, n), ptr(a, n), n)
	default:
		for i := range dst {
			dst[i] = sigmoid(a[i])
		}
	}
}

// tanh returns the hyperbolic tangent as m/(m+2), m = e^(2|x|) - 1, which is accurate near
// zero too: there n is 0 and m is expm1 of 2|x| itself.
func tanh(x float32) float32 {
	z := abs(x)
	if z > 10 {
		z = 10
	}
	r, k := reduce(z+z, 127)
	s := power(k)
	m := float32(expm1(r)*s) + (s - 1)
	t := m / (m + 2)
	return math.Float32frombits(math.Float32bits(t) | math.Float32bits(x)&(1<<31))
}

// Tanh sets dst[i] to the hyperbolic tangent of a[i], within 2.7 ulps.
func Tanh(dst, a []float32) {
	n := len(dst)
	switch {
	case useAVX512:
		tanhAVX512(ptr(dst, n), ptr(a, n), n)
	case useAVX2:
		tanhAVX2(ptr(dst, n), ptr(a, n), n)
	default:
		for i := range dst {
			dst[i] = tanh(a[i])
		}
	}
}
