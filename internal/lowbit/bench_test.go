package lowbit_test

import (
	"math/rand"
	"testing"

	"memopt/internal/lowbit"
)

// BenchmarkEncode rounds blocks to codes.
func BenchmarkEncode(b *testing.B) {
	x, block, codes := make([]float32, 256), make([]float32, 256), make([]byte, 256)
	for i := range x {
		x[i] = float32(rand.NormFloat64())
	}
	b.SetBytes(4 * 256)
	for b.Loop() {
		copy(block, x)
		lowbit.Signed8.Encode(codes, block)
	}
}
