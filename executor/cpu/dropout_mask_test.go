package cpu

import (
	"math"
	"slices"
	"testing"

	"memopt/executor/operand"
)

// TestDropoutWide compares the assembly with the Go loops.
func TestDropoutWide(t *testing.T) {
	if !philoxWide {
		t.Skip("this processor has no AVX2: there is no assembly to compare with; " +
			"any x86-64 processor since 2013 has it")
	}
	defer func() { philoxWide = true }()
	for _, n := range []int{0, 1, 31, 32, 33, 64, 127, 512} {
		for _, threshold := range []uint64{0, 1, 1 << 31, 1<<31 + 1, 1<<32 - 1} {
			type result struct {
				keep, back, bits []uint32
				bytes            []uint8
				y                []uint32
			}
			run := func(wide bool) (r result) {
				philoxWide = wide
				r.keep = make([]uint32, n)
				words := newPhiloxStream(operand.Draws{Seed: uint64(n)}, 0, 0)
				words.fill(r.keep, 0)
				if n > 2 {
					r.keep[0], r.keep[1], r.keep[2] = uint32(threshold), uint32(threshold)-1, math.MaxUint32
				}
				x, y := make([]float32, n), make([]float32, n)
				for i := range x {
					x[i] = float32(r.keep[i]) - 1e9
				}
				keepWords(r.keep, threshold)
				r.bytes, r.back, r.bits = make([]uint8, n), make([]uint32, n), make([]uint32, (n+31)/32)
				packBytes(r.bytes, r.keep)
				unpackBytes(r.back, r.bytes)
				packBits(r.bits, r.keep)
				selectScaled(y, x, r.keep, 1.25)
				for _, v := range y {
					r.y = append(r.y, math.Float32bits(v))
				}
				return r
			}
			a, b := run(true), run(false)
			if !slices.Equal(a.keep, b.keep) || !slices.Equal(a.back, b.keep) || !slices.Equal(b.back, b.keep) ||
				!slices.Equal(a.bits, b.bits) || !slices.Equal(a.bytes, b.bytes) || !slices.Equal(a.y, b.y) {
				t.Errorf("%d elements, threshold %d: %v, wanted %v", n, threshold, a, b)
			}
		}
	}
}
