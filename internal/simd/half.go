package simd

import "math"

// The conversions give the results of package half, NaN included.

// Float16ToFloat32 converts IEEE 754 binary16 patterns; a signalling NaN becomes quiet.
func Float16ToFloat32(dst []float32, src []uint16) {
	done := 0
	if useAVX2 {
		done = len(dst) &^ 7
		float16ToFloat32AVX2(ptr(dst, len(dst)), ptr(src, len(dst)), done)
	}
	for i := done; i < len(dst); i++ {
		dst[i] = float16ToFloat32(src[i])
	}
}

// Float32ToFloat16 rounds to the nearest IEEE 754 binary16, ties to even.
func Float32ToFloat16(dst []uint16, src []float32) {
	done := 0
	if useAVX2 {
		done = len(dst) &^ 7
		float32ToFloat16AVX2(ptr(dst, len(dst)), ptr(src, len(dst)), done)
	}
	for i := done; i < len(dst); i++ {
		dst[i] = float32ToFloat16(src[i])
	}
}

// BFloat16ToFloat32 converts bfloat16 patterns.
func BFloat16ToFloat32(dst []float32, src []uint16) {
	done := 0
	if useAVX2 {
		done = len(dst) &^ 7
		bfloat16ToFloat32AVX2(ptr(dst, len(dst)), ptr(src, len(dst)), done)
	}
	for i := done; i < len(dst); i++ {
		dst[i] = math.Float32frombits(uint32(src[i]) << 16)
	}
}

// Float32ToBFloat16 rounds to the nearest bfloat16, ties to even; NaN becomes quiet.
func Float32ToBFloat16(dst []uint16, src []float32) {
	done := 0
	if useAVX2 {
		done = len(dst) &^ 7
		float32ToBFloat16AVX2(ptr(dst, len(dst)), ptr(src, len(dst)), done)
	}
	for i := done; i < len(dst); i++ {
		dst[i] = float32ToBFloat16(src[i])
	}
}

func float16ToFloat32(h uint16) float32 {
	sign, magnitude := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case magnitude > 0x7c00: // NaN
		return math.Float32frombits(sign | 0x7fc00000 | magnitude<<13)
	case magnitude == 0x7c00:
		return math.Float32frombits(sign | 0x7f800000)
	}
	// As the pattern of a float32 the magnitude is too small by 2^(127-15); the product is
	// exact, also where the half, and that pattern, is subnormal.
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(magnitude<<13)*0x1p112))
}

func float32ToFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	bits &= 1<<31 - 1
	switch {
	case bits > 0x7f800000: // NaN: quiet, with the upper part of its payload
		return sign | 0x7e00 | uint16(bits>>13)&0x3ff
	case bits >= 0x477ff000: // 65520: halfway from the largest to 2^16
		return sign | 0x7c00
	case bits < 0x38800000: // subnormal: the sum with 0.5 rounds to a multiple of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(bits)+0.5)-0x3f000000)
	}
	return sign | uint16((bits+0xfff+bits>>13&1)>>13-112<<10)
}

func float32ToBFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	if f != f {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
