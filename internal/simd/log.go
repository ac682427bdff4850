package simd

import "math"

// Coefficients of p in log(1+f) = f - f²/2 + f³*p(f) for √½-1 <= f <= √2-1, of relative
// error 2^-30.3, fitted as those of Exp.
const (
	logC0 = 0.33333313
	logC1 = -0.25000009
	logC2 = 0.2000212
	logC3 = -0.16667996
	logC4 = 0.14219552
	logC5 = -0.12405589
	logC6 = 0.11888162
	logC7 = -0.11675653
	logC8 = 0.06746642

	sqrtHalf  = 0x3f3504f3 // the pattern of √½
	minNormal = 0x1p-126
)

// log returns the natural logarithm: x = 2^n*(1+f) with √½ <= 1+f < √2.
func log(x float32) float32 {
	v, bias := x, float32(0)
	if x < minNormal {
		v, bias = x*0x1p23, 23
	}
	i := int32(math.Float32bits(v)) - sqrtHalf
	n := float32(i>>23) - bias
	f := math.Float32frombits(uint32(i&0x7fffff+sqrtHalf)) - 1
	p := float32(logC8)
	p = float32(p*f) + logC7
	p = float32(p*f) + logC6
	p = float32(p*f) + logC5
	p = float32(p*f) + logC4
	p = float32(p*f) + logC3
	p = float32(p*f) + logC2
	p = float32(p*f) + logC1
	p = float32(p*f) + logC0
	ff := float32(f * f)
	y := float32(float32(ff*f)*p) + float32(n*ln2Low)
	y -= float32(ff * 0.5)
	y = (f + y) + float32(n*ln2High)
	switch {
	case !(x < float32(math.Inf(1))): // +Inf and NaN
		return x
	case x == 0:
		return float32(math.Inf(-1))
	case x < 0:
		return float32(math.NaN())
	}
	return y
}

// Log sets dst[i] to the natural logarithm of a[i], within 0.9 ulps.
func Log(dst, a []float32) {
	n := len(dst)
	switch {
	case useAVX512:
		logAVX512(ptr(dst, n), ptr(a, n), n)
	case useAVX2:
		logAVX2(ptr(dst, n), ptr(a, n), n)
	default:
		for i := range dst {
			dst[i] = log(a[i])
		}
	}
}
