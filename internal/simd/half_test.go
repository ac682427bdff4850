package simd

import (
	"math"
	"testing"

	"memopt/internal/half"
)

// TestWiden converts every pattern as package half does.
func TestWiden(t *testing.T) {
	src := make([]uint16, 1<<16+5) // a tail of five
	for i := range src {
		src[i] = uint16(i)
	}
	dst := make([]float32, len(src))
	each(t, func(impl string) {
		Float16ToFloat32(dst, src)
		for i, s := range src {
			if w := half.Float16(s).Float32(); math.Float32bits(w) != math.Float32bits(dst[i]) {
				t.Fatalf("%s: float16 %#x gives %g, want %g", impl, s, dst[i], w)
			}
		}
		BFloat16ToFloat32(dst, src)
		for i, s := range src {
			if w := half.BFloat16(s).Float32(); math.Float32bits(w) != math.Float32bits(dst[i]) {
				t.Fatalf("%s: bfloat16 %#x gives %g, want %g", impl, s, dst[i], w)
			}
		}
	})
}

// TestNarrow converts a sample of all patterns, and all near ties, as package half does.
func TestNarrow(t *testing.T) {
	dst := make([]uint16, 4096)
	check := func(a []float32) {
		each(t, func(impl string) {
			Float32ToFloat16(dst[:len(a)], a)
			for i, x := range a {
				if w := uint16(half.Float16From(x)); w != dst[i] {
					t.Fatalf("%s: %g (%#x) gives float16 %#x, want %#x", impl, x, math.Float32bits(x), dst[i], w)
				}
			}
			Float32ToBFloat16(dst[:len(a)], a)
			for i, x := range a {
				if w := uint16(half.BFloat16From(x)); w != dst[i] {
					t.Fatalf("%s: %g (%#x) gives bfloat16 %#x, want %#x", impl, x, math.Float32bits(x), dst[i], w)
				}
			}
		})
	}
	samples(5003, check)
	var a []float32
	for h := range uint32(1 << 16) {
		for _, low := range []uint32{0x0fff, 0x1000, 0x1001, 0x3000, 0x7fff, 0x8000, 0x8001} {
			a = append(a, math.Float32frombits(h<<16|low))
			if len(a) == len(dst) {
				check(a)
				a = a[:0]
			}
		}
	}
	check(a)
}

// each runs f with every implementation.
func each(t *testing.T, f func(impl string)) {
	t.Helper()
	for _, impl := range implementations() {
		impl.do(func() { f(impl.name) })
	}
}
