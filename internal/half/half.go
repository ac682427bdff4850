// Package half has the 16-bit floating-point formats: IEEE 754 binary16 and
// bfloat16, the upper half of a float32. Arithmetic is done in float32.
package half

import "math"

// Float16 is an IEEE 754 binary16 number.
type Float16 uint16

// BFloat16 is the upper half of a float32.
type BFloat16 uint16

// Float32 returns the number as a float32, exactly; a signalling NaN becomes quiet, as in
// every conversion of IEEE 754.
func (h Float16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&0x1f, uint32(h&0x3ff)
	switch exp {
	case 0x1f: // infinity and NaN
		if frac != 0 {
			frac |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case 0: // zero and subnormal: frac * 2^-24
		f := float32(frac) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Float16From rounds a float32 to the nearest binary16, ties to even.
func Float16From(f float32) Float16 {
	b := math.Float32bits(f)
	sign := Float16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN: keep it quiet and keep its upper payload
		return sign | 0x7e00 | Float16(b>>13)&0x3ff
	case b >= 0x477ff000: // rounds to 2^16 or more
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: subnormal. Adding 0.5 leaves frac*2^-24 in the low bits.
		s := math.Float32frombits(b) + 0.5
		return sign | Float16(math.Float32bits(s)-0x3f000000)
	}
	b += 0xfff + b>>13&1 // to nearest, ties to even
	return sign | Float16(b>>13-112<<10)
}

// Float32 returns the number as a float32: the same pattern followed by zeros.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// BFloat16From rounds a float32 to the nearest bfloat16, ties to even.
func BFloat16From(f float32) BFloat16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return BFloat16(b>>16 | 0x40)
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}
