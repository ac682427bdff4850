package symbolic

import (
	"cmp"
	"math"
	"math/bits"
)

// addInt returns a+b, and whether it fits.
func addInt(a, b int64) (int64, bool) {
	s := a + b
	return s, (a^s)&(b^s) >= 0 // overflow flips the sign that both operands share
}

// negInt returns -a, and whether it fits.
func negInt(a int64) (int64, bool) { return -a, a != math.MinInt64 }

// mulInt returns a*b, and whether it fits.
func mulInt(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if (a < 0) != (b < 0) {
		return int64(-lo), hi == 0 && lo <= 1<<63
	}
	return int64(lo), hi == 0 && lo < 1<<63
}

// magnitude returns |a|, which fits uint64 for every a.
func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// floorDivInt returns a/b rounded down, and whether it fits; b is not 0.
func floorDivInt(a, b int64) (int64, bool) {
	if b == -1 {
		return negInt(a)
	}
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q, true
}

// ceilDivInt returns a/b rounded up, and whether it fits; b is not 0.
func ceilDivInt(a, b int64) (int64, bool) {
	q, ok := floorDivInt(a, b)
	if modInt(a, b) != 0 {
		q++ // below the maximum, for a divisor other than 1 and -1
	}
	return q, ok
}

// modInt returns a - b*floor(a/b); b is not 0.
func modInt(a, b int64) int64 {
	if b == -1 {
		return 0
	}
	r := a % b
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// GCD returns the greatest common divisor of two numbers that are not negative; that of 0 and 0 is 0.
func GCD[T int64 | uint64](a, b T) T {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// powInt returns c to the power n, and whether it fits; 0 to the power 0 is 1.
func powInt(c int64, n uint) (int64, bool) {
	result, ok := int64(1), true
	for {
		if n&1 == 1 {
			if result, ok = mulInt(result, c); !ok {
				return 0, false
			}
		}
		if n >>= 1; n == 0 {
			return result, true
		}
		if c, ok = mulInt(c, c); !ok {
			return 0, false
		}
	}
}

// wide is a 128-bit sum of int64 values.
type wide struct {
	hi int64
	lo uint64
}

func (w wide) add(x int64) wide {
	lo, carry := bits.Add64(w.lo, uint64(x), 0)
	hi, _ := bits.Add64(uint64(w.hi), uint64(x>>63), carry)
	return wide{int64(hi), lo}
}

// int64 returns the sum, and whether it fits.
func (w wide) int64() (int64, bool) {
	return int64(w.lo), w.hi == int64(w.lo)>>63
}

const (
	maxInt64 = math.MaxInt64
	minInt64 = math.MinInt64
)

func compareInts(a, b int64) int { return cmp.Compare(a, b) }
