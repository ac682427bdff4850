package kerneltest

import (
	"math"
	"math/bits"

	"memopt/executor"
	"memopt/graph"
)

// seqWords returns words 0..n-1 of a stream of random words, as the executors define them: word i
// is word i mod 4 of Philox4x32-10 with the counter (i/4 in 64 bits, step 0, stream) and the key
// splitmix64(seed).
func seqWords(seed uint64, stream uint32, n int) []uint32 {
	key := seed + 0x9E3779B97F4A7C15
	key = (key ^ key>>30) * 0xBF58476D1CE4E5B9
	key = (key ^ key>>27) * 0x94D049BB133111EB
	key ^= key >> 31
	var words []uint32
	for block := 0; len(words) < n; block++ {
		c := [4]uint32{uint32(block), uint32(block >> 32), 0, stream}
		k := [2]uint32{uint32(key), uint32(key >> 32)}
		for round := range 10 {
			if round > 0 {
				k[0] += 0x9E3779B9
				k[1] += 0xBB67AE85
			}
			hi0, lo0 := bits.Mul32(c[0], 0xD2511F53)
			hi1, lo1 := bits.Mul32(c[2], 0xCD9E8D57)
			c = [4]uint32{hi1 ^ c[1] ^ k[0], lo1, hi0 ^ c[3] ^ k[1], lo0}
		}
		words = append(words, c[:]...)
	}
	return words[:n]
}

// seqUniform returns numbers of 53 bits from [0, 1): the upper 32 from stream 0, the rest
// from stream 1.
func seqUniform(seed uint64, n int) []float64 {
	high, low := seqWords(seed, 0, n), seqWords(seed, 1, n)
	u := make([]float64, n)
	for i := range u {
		u[i] = math.Ldexp(float64(high[i])*(1<<21)+float64(low[i]>>11), -53)
	}
	return u
}

// seqKeep says which elements a dropout keeps.
func seqKeep(seed uint64, n int, ratio float64) []bool {
	keep := make([]bool, n)
	for i, w := range seqWords(seed, 0, n) {
		keep[i] = float64(w) >= math.Floor(ratio*(1<<32))
	}
	return keep
}

func seqMask(shape []int, keep []bool) *executor.Tensor {
	v := make([]float64, len(keep))
	for i, k := range keep {
		if k {
			v[i] = 1
		}
	}
	return seqTensor(graph.Bool, shape, v)
}

// seqBits packs a mask, the first element into the lowest bit of the first word.
func seqBits(keep []bool) *executor.Tensor {
	words := make([]uint32, (len(keep)+31)/32)
	for i, k := range keep {
		if k {
			words[i/32] |= 1 << (i % 32)
		}
	}
	return executor.NewTensor(graph.Uint32, []int{len(words)}, words...)
}
