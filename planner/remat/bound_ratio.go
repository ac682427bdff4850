package remat

import (
	"math"
	"math/bits"
)

// ratio is a number mantissa / 2^down, so that products with integers can be rounded to either side
// exactly.
type ratio struct {
	mantissa uint64
	down     int
}

// newRatio is x times 2^scale; x is not negative.
func newRatio(x float64, scale int) ratio {
	frac, exp := math.Frexp(x)
	return ratio{uint64(frac * (1 << 53)), 53 - exp - scale}
}

// exponent is the least e with x < 2^e.
func exponent(x float64) int {
	_, exp := math.Frexp(x)
	return exp
}

// times is the product with k, which is not negative, rounded up or down, and at most flowEndless.
func (r ratio) times(k int64, up bool) int64 {
	hi, lo := bits.Mul64(r.mantissa, uint64(k))
	if hi|lo == 0 {
		return 0
	}
	if r.down < 0 {
		if hi > 0 || bits.Len64(lo)-r.down > 61 {
			return flowEndless
		}
		return int64(lo << -r.down)
	}
	if r.down >= 128 {
		if up {
			return 1
		}
		return 0
	}
	rest := false
	if r.down >= 64 {
		rest = lo != 0
		hi, lo = 0, hi
	}
	down := uint(r.down) % 64
	rest = rest || lo&(1<<down-1) != 0
	if down > 0 {
		lo = hi<<(64-down) | lo>>down
		hi >>= down
	}
	if hi > 0 || lo >= uint64(flowEndless) {
		return flowEndless
	}
	if up && rest {
		lo++
	}
	return int64(lo)
}

// shift is k times 2^scale, rounded down.
func shift(k int64, scale int) int64 {
	if scale >= 0 {
		return k << scale
	}
	return k >> min(63, -scale)
}

// shiftUp is k divided by 2^scale, rounded up.
func shiftUp(k int64, scale int) int64 {
	if scale < 0 {
		return k << -scale
	}
	if scale > 62 {
		return 1
	}
	return (k-1)>>scale + 1
}
