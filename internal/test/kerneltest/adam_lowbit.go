package kerneltest

import (
	"fmt"
	"math"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

func init() { register(lowBitAdamCases) }

// lowBitSetting is a step of Adam8bit or Adam4bit.
type lowBitSetting struct {
	bits         int
	w, g         graph.DType
	shape        []int
	decay, keep  float32
	factor       float32
	fresh        bool // moments of a first step
	skipped      bool
	withoutCodes bool // only the weight is wanted
	stochastic   bool // rounding of the weight
}

// Attributes and scalars of all cases.
const lowBitShare1, lowBitShare2, lowBitEpsilon, lowBitRate, lowBitRoot = 0.125, 0.03125, 1e-6, 0.0625, 0.75

// lowBitNumbers are the numbers that codes of so many bits stand for.
type lowBitNumbers struct {
	bits, block int
	numbers     []float32
}

func newLowBitNumbers(bits int, signed bool) *lowBitNumbers {
	block, numbers := op.LowBitNumbers(bits, signed)
	return &lowBitNumbers{bits, block, numbers}
}

func (s lowBitSetting) make(name string) Case {
	n := 1
	for _, d := range s.shape {
		n *= d
	}
	signed, unsigned := newLowBitNumbers(s.bits, true), newLowBitNumbers(s.bits, false)
	blocks, codes := n/signed.block, s.shape
	if s.bits == 4 {
		codes = []int{n / 2}
	}
	w, g := seqTensor(s.w, s.shape, seqValues(n, 1)), seqTensor(s.g, s.shape, seqValues(n, 2))
	m, v := executor.NewTensor(graph.Uint8, codes, lowBitCodes(s, n, 3)...),
		executor.NewTensor(graph.Uint8, codes, lowBitCodes(s, n, 4)...)
	scales := func(seed uint32) *executor.Tensor {
		list := seqValues(blocks, seed)
		for i := range list {
			if list[i] = math.Abs(list[i]) + 0.25; s.fresh {
				list[i] = 0
			}
		}
		return seqTensor(graph.Float32, []int{blocks}, list)
	}
	ms, vs := scales(5), scales(6)
	scalar := func(x float32) *executor.Tensor { return executor.NewTensor(graph.Float32, []int{}, x) }
	c := Case{Name: name, Kind: op.Adam8bit, In: []*executor.Tensor{w, g, m, ms, v, vs, scalar(lowBitRate),
		scalar(lowBitRoot), scalar(s.keep), scalar(s.factor), {DType: graph.Bool, Shape: []int{}, Data: []byte{1}}},
		Attrs: []graph.Attr{Attr("decay", s.decay), Attr("epsilon", float32(lowBitEpsilon)),
			Attr("share1", float32(lowBitShare1)), Attr("share2", float32(lowBitShare2)), Attr("to", int64(s.w))},
		Out: []graph.DType{s.w, graph.Uint8, graph.Float32, graph.Uint8, graph.Float32}}
	if s.bits == 4 {
		c.Kind = op.Adam4bit
	}
	if s.stochastic {
		c.Kind = map[int]graph.Kind{8: op.StochasticAdam8bit, 4: op.StochasticAdam4bit}[s.bits]
		c.In = append(c.In, executor.NewTensor(graph.Int64, []int{}, int64(roundingStep)))
		c.Attrs[4] = Attr("seed", int64(roundingSeed))
	}
	if s.skipped {
		c.In[10].Data[0] = 0
	}
	c.Want = []*executor.Tensor{w, m, ms, v, vs}
	if !s.skipped {
		newW, newM, newV := s.update(lowBitFloats(w), lowBitFloats(g), lowBitDecoded(signed, m, ms),
			lowBitDecoded(unsigned, v, vs))
		if c.Want[0] = seqTensor(s.w, s.shape, newW); s.stochastic {
			c.Want[0] = roundedByChance(s.shape, newW)
		}
		c.Want[1], c.Want[2] = lowBitEncoded(signed, codes, newM)
		c.Want[3], c.Want[4] = lowBitEncoded(unsigned, codes, newV)
	}
	if s.withoutCodes {
		for i := 1; i < 5; i++ {
			c.Want[i], c.Out[i] = nil, graph.Undefined
		}
	}
	return c
}

// update is the formula, each operation rounded to float32.
func (s lowBitSetting) update(w, g, m, v []float32) (newW []float64, newM, newV []float32) {
	for i := range w {
		scaled := s.factor * g[i]
		shrunk := s.decay * w[i]
		x := scaled + shrunk
		move := lowBitShare1 * (x - m[i])
		m1 := m[i] + move
		square := x * x
		move = lowBitShare2 * (square - v[i])
		v1 := v[i] + move
		root := float32(math.Sqrt(float64(v1)))
		root /= lowBitRoot
		step := m1 / (root + lowBitEpsilon)
		step *= lowBitRate
		kept := s.keep * w[i]
		newW, newM, newV = append(newW, float64(kept-step)), append(newM, m1), append(newV, v1)
	}
	return newW, newM, newV
}

// lowBitCodes are codes of n elements.
func lowBitCodes(s lowBitSetting, n int, seed uint32) []uint8 {
	codes := make([]uint8, n*s.bits/8)
	for i, x := range seqValues(len(codes), seed) {
		if codes[i] = uint8(int(x*64) + 128); s.fresh {
			codes[i] = 0
		}
	}
	return codes
}

func lowBitFloats(t *executor.Tensor) (out []float32) {
	switch t.DType {
	case graph.Float16:
		for _, x := range executor.Of[half.Float16](t) {
			out = append(out, x.Float32())
		}
	case graph.BFloat16:
		for _, x := range executor.Of[half.BFloat16](t) {
			out = append(out, x.Float32())
		}
	default:
		out = slices.Clone(executor.Of[float32](t))
	}
	return out
}

func lowBitDecoded(f *lowBitNumbers, codes, scales *executor.Tensor) (out []float32) {
	for _, c := range codes.Data {
		if f.bits == 4 {
			out = append(out, f.numbers[c>>4], f.numbers[c&15])
		} else {
			out = append(out, f.numbers[c])
		}
	}
	for i := range out {
		out[i] *= executor.Of[float32](scales)[i/f.block]
	}
	return out
}

// lowBitEncoded rounds to codes by torchao's search.
func lowBitEncoded(f *lowBitNumbers, shape []int, x []float32) (codes, scales *executor.Tensor) {
	var list []uint8
	var of []float32
	for i, v := range x {
		if i%f.block == 0 {
			largest := float32(1e-12)
			for _, u := range x[i : i+f.block] {
				largest = max(largest, u, -u)
			}
			of = append(of, largest)
		}
		v /= of[len(of)-1]
		at := 0
		for at+1 < len(f.numbers) && v >= f.numbers[at+1] {
			at++
		}
		if up := min(at+1, len(f.numbers)-1); v-f.numbers[at] >= (f.numbers[up]-f.numbers[at])*0.5 {
			at = up
		}
		if f.bits == 4 && i%2 == 1 {
			list[len(list)-1] |= uint8(at)
		} else {
			list = append(list, uint8(at)<<(8-f.bits))
		}
	}
	return executor.NewTensor(graph.Uint8, shape, list...), executor.NewTensor(graph.Float32, []int{len(of)}, of...)
}

func lowBitAdamCases() (cs []Case) {
	for _, bits := range []int{8, 4} {
		plain := lowBitSetting{bits: bits, w: graph.Float32, g: graph.Float32, shape: []int{4, 3, 128}, keep: 1,
			factor: 1}
		if bits == 8 {
			plain.shape = []int{4, 3, 256}
		}
		with := func(name string, change func(*lowBitSetting)) {
			s := plain
			change(&s)
			cs = append(cs, s.make(name))
		}
		with("plain", func(*lowBitSetting) {})
		with("decay of the gradient", func(s *lowBitSetting) { s.decay = 0.25 })
		with("decay of the weight", func(s *lowBitSetting) { s.keep = 0.96875 })
		with("scaled gradient", func(s *lowBitSetting) { s.factor, s.keep = 0.3, 0.99 })
		with("first step", func(s *lowBitSetting) { s.fresh = true })
		with("bfloat16", func(s *lowBitSetting) { s.w, s.g = graph.BFloat16, graph.BFloat16 })
		with("float16 with gradients in float", func(s *lowBitSetting) { s.w = graph.Float16 })
		with("no update", func(s *lowBitSetting) { s.skipped, s.decay = true, 0.25 })
		with("no update in float16", func(s *lowBitSetting) { s.skipped, s.w = true, graph.Float16 })
		with("only weights", func(s *lowBitSetting) { s.withoutCodes = true })
		with("large", func(s *lowBitSetting) { s.shape = []int{130, 256} })
		with("empty", func(s *lowBitSetting) { s.shape = []int{0, 256} })
		with("stochastic", func(s *lowBitSetting) { s.w, s.g, s.stochastic = graph.BFloat16, graph.BFloat16, true })
		with("stochastic with gradients in float", func(s *lowBitSetting) {
			s.w, s.stochastic, s.shape, s.keep = graph.BFloat16, true, []int{130, 256}, 0.99
		})
		with("stochastic without update", func(s *lowBitSetting) {
			s.w, s.stochastic, s.skipped = graph.BFloat16, true, true
		})
		with("stochastic, empty", func(s *lowBitSetting) {
			s.w, s.stochastic, s.shape = graph.BFloat16, true, []int{0, 256}
		})
		wrong := func(text string, slot int, t *executor.Tensor) {
			c := plain.make("")
			c.In[slot] = t
			cs = append(cs, seqFails(c, text, text))
		}
		wrong("wanted float, float16 or bfloat16", 0, seqTensor(graph.Float64, plain.shape, seqValues(4*3*256, 1)))
		wrong("input 2 has type int8, wanted uint8", 2, executor.NewTensor(graph.Int8, []int{1}, int8(1)))
		wrong("input 1 is", 1, seqTensor(graph.Float32, []int{2}, []float64{1, 2}))
		wrong("input 5 is", 5, seqTensor(graph.Float32, []int{2}, []float64{1, 2}))
		wrong("input 7 is", 7, seqTensor(graph.Float32, []int{2}, []float64{1, 2}))
		wrong(fmt.Sprintf("input 0 has 100 elements, wanted blocks of %d", newLowBitNumbers(bits, true).block), 0,
			seqTensor(graph.Float32, []int{100}, seqValues(100, 1)))
	}
	return cs
}
