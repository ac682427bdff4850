package kerneltest

import (
	"math"
	"math/bits"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

func init() { register(stochasticRoundCases) }

// Seed and step of all cases; both have more than 32 bits.
const roundingSeed, roundingStep = -0x123456789abcdef, 0x500000007

// roundingBits are the 16 random bits of an element: the high ones of its word. The generator is written with products
// of 64 bits here, in the order of its paper.
func roundingBits(i int, seed, step uint64) uint32 {
	c := [4]uint32{uint32(i / 4), uint32(uint64(i) / 4 >> 32), uint32(step), uint32(step >> 32)}
	k0, k1 := uint32(seed), uint32(seed>>32)
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k0, l1, h0 ^ c[3] ^ k1, l0}
		k0, k1 = k0+0x9E3779B9, k1+0xBB67AE85
	}
	return c[i%4] >> 16
}

// roundedByChance rounds numbers in float64: away from zero where the part of a unit that is cut off, in 65,536ths, and
// the random number are more than a unit.
func roundedByChance(shape []int, x []float64) *executor.Tensor {
	out := make([]half.BFloat16, len(x))
	seed := int64(roundingSeed)
	for i, v := range x {
		size := math.Abs(v)
		if !(size >= 0x1p-100 && size <= 0x1p100) {
			out[i] = half.BFloat16From(float32(v))
			continue
		}
		_, exponent := math.Frexp(size)
		unit := math.Ldexp(1, exponent-8) // of bfloat16
		low := math.Floor(size/unit) * unit
		if (size-low)/unit*65536+float64(roundingBits(i, uint64(seed), roundingStep)) >= 65536 {
			low += unit
		}
		out[i] = half.BFloat16From(float32(math.Copysign(low, v)))
	}
	return executor.NewTensor(graph.BFloat16, shape, out...)
}

func stochasticRoundCases() (cs []Case) {
	add := func(name string, shape []int, x []float64) {
		in := make([]float32, len(x))
		for i, v := range x {
			in[i] = float32(v)
			x[i] = float64(in[i])
		}
		cs = append(cs, Case{Name: name, Kind: op.StochasticRound,
			In: []*executor.Tensor{executor.NewTensor(graph.Float32, shape, in...),
				executor.NewTensor(graph.Int64, []int{}, int64(roundingStep))},
			Attrs: []graph.Attr{Attr("seed", int64(roundingSeed))}, Out: []graph.DType{graph.BFloat16},
			Want: []*executor.Tensor{roundedByChance(shape, x)}})
	}
	add("numbers", []int{5, 7}, seqValues(35, 1))
	add("a vector", []int{3}, seqValues(3, 2))
	add("empty", []int{0, 4}, nil)
	third := make([]float64, 20000)
	for i := range third {
		third[i] = 1 + 0x1p-7/3
	}
	add("one number", []int{200, 100}, third)
	var edges []float64
	for _, e := range []int{-149, -127, -126, -101, -100, -99, -1, 0, 7, 99, 100, 101, 127} {
		for _, m := range []float64{1, 1 + 0x1p-23, 1 + 0x1p-7, 1.5, 2 - 0x1p-8, 2 - 0x1p-23} {
			edges = append(edges, math.Ldexp(m, e), -math.Ldexp(m, e))
		}
	}
	edges = append(edges, 0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN())
	for len(edges) < 1000 {
		edges = append(edges, edges[:min(len(edges), 1000-len(edges))]...)
	}
	add("edges", []int{1000}, edges)
	c := cs[0]
	c.In = []*executor.Tensor{c.In[0], executor.NewTensor(graph.Int64, []int{2}, int64(1), int64(2))}
	return append(cs, seqFails(c, "a step of two numbers", "input 1, the step, is"))
}
