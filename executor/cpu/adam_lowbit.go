package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
	"memopt/internal/lowbit"
	"memopt/internal/simd"
)

// lowBitAdam is the kernel of memopt's own Adam8bit and Adam4bit (graph/op/lowbit.go has the formula): it goes through
// the blocks one by one, so that the moments are there in float32 for one block of each thread.
type lowBitAdam struct {
	m, v                           *lowbit.Format
	share1, share2, epsilon, decay float32

	stochastic bool // weights are rounded by chance
	seed       uint64
	stream     philoxStream // of the step

	rate, root, keep, factor float32
	update                   bool
	in                       [6]*executor.Tensor // weights, gradient, then codes and scales of both moments
	out                      [5]*executor.Tensor // weights, then codes and scales
}

// newLowBitAdam returns the constructor of the kernel for codes of so many bits.
func newLowBitAdam(bits int, stochastic bool) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		for i, want := range [...]graph.DType{2: graph.Uint8, 3: graph.Float32, 4: graph.Uint8, 5: graph.Float32,
			6: graph.Float32, 7: graph.Float32, 8: graph.Float32, 9: graph.Float32, 10: graph.Bool} {
			if i >= 2 && p.DType(i) != want {
				return nil, p.Errorf("input %d has type %v, wanted %v", i, p.DType(i), want)
			}
		}
		for i := range 2 {
			if d := p.DType(i); stochastic && i == 0 && d != graph.BFloat16 {
				return nil, p.Errorf("input 0 has type %v, wanted bfloat16", d)
			} else if d != graph.Float32 && !isHalf(d) {
				return nil, p.Errorf("input %d has type %v, wanted float, float16 or bfloat16", i, d)
			}
		}
		n := p.Node
		return &lowBitAdam{m: lowbit.FormatOf(bits, true), v: lowbit.FormatOf(bits, false),
			share1: n.Float("share1", 0),
			share2: n.Float("share2", 0), epsilon: n.Float("epsilon", 0), decay: n.Float("decay", 0),
			stochastic: stochastic, seed: uint64(n.Int("seed", 0))}, nil
	}
}

// Run checks the sizes and updates.
func (k *lowBitAdam) Run(c *executor.Ctx) error {
	n := c.In(0).Len()
	blocks := n / k.m.Block
	if n%k.m.Block != 0 {
		return c.Errorf("input 0 has %d elements, wanted blocks of %d", n, k.m.Block)
	}
	codes := int(k.m.CodeBytes(int64(n)))
	for i, want := range [...]int{n, n, codes, blocks, codes, blocks, 1, 1, 1, 1, 1} {
		if c.In(i).Len() != want {
			return c.Errorf("input %d is %v, wanted %d elements", i, c.In(i), want)
		}
	}
	for i := range k.in {
		k.in[i] = c.In(i)
	}
	for i, from := range [...]int{0, 2, 3, 4, 5} {
		k.out[i] = c.Out(i, c.In(from).Shape...)
	}
	for i, x := range [...]*float32{6: &k.rate, 7: &k.root, 8: &k.keep, 9: &k.factor} {
		if x != nil {
			*x = executor.Of[float32](c.In(i))[0]
		}
	}
	k.update = c.In(10).Data[0] != 0
	if k.stochastic {
		step, err := roundingStep(c, 11)
		if err != nil {
			return err
		}
		k.stream = roundingStream(k.seed, step)
	}
	c.Parallel(blocks, 1<<13/k.m.Block, k)
	return nil
}

// Range updates blocks.
func (k *lowBitAdam) Range(lo, hi int) {
	var wb, gb, mb, vb, tb, rb [lowbit.MaxBlock]float32
	size := k.m.Block
	bytes := int(k.m.CodeBytes(int64(size)))
	w, g, m, v, t, root := wb[:size], gb[:size], mb[:size], vb[:size], tb[:size], rb[:size]
	for i := range root {
		root[i] = k.root
	}
	ms, vs := executor.Of[float32](k.in[3]), executor.Of[float32](k.in[5])
	for b := lo; b < hi; b++ {
		if !k.update {
			k.keepBlock(b, size, bytes)
			continue
		}
		// Outputs may lie in their inputs: each block is read before it is written.
		copy(w, chunkIn(k.in[0].DType, k.in[0].Data, b*size, (b+1)*size, w))
		copy(g, chunkIn(k.in[1].DType, k.in[1].Data, b*size, (b+1)*size, g))
		k.m.Decode(m, k.in[2].Data[b*bytes:], ms[b])
		k.v.Decode(v, k.in[4].Data[b*bytes:], vs[b])
		k.step(w, g, m, v, t, root)
		k.storeWeights(b*size, w)
		k.store(k.m, k.out[1], k.out[2], b, bytes, m)
		k.store(k.v, k.out[3], k.out[4], b, bytes, v)
	}
}

// step replaces the weights and moments of a block. Each operation is rounded, as in the operator's definition.
func (k *lowBitAdam) step(w, g, m, v, t, root []float32) {
	simd.MulScalar(g, g, k.factor)
	simd.MulScalar(t, w, k.decay)
	simd.Add(g, g, t)
	simd.Sub(t, g, m)
	simd.MulScalar(t, t, k.share1)
	simd.Add(m, m, t)
	simd.Mul(t, g, g)
	simd.Sub(t, t, v)
	simd.MulScalar(t, t, k.share2)
	simd.Add(v, v, t)
	simd.Sqrt(t, v)
	simd.Div(t, t, root)
	simd.AddScalar(t, t, k.epsilon)
	simd.Div(t, m, t)
	simd.MulScalar(t, t, k.rate)
	simd.MulScalar(w, w, k.keep)
	simd.Sub(w, w, t)
}

// storeWeights writes weights from number lo on, where they are wanted.
func (k *lowBitAdam) storeWeights(lo int, w []float32) {
	if !k.stochastic || k.out[0] == nil {
		adamStore(k.out[0], lo, w)
		return
	}
	var buf [lowbit.MaxBlock]uint32
	words := buf[:len(w)]
	k.stream.fill(words, lo)
	roundByChance(executor.Of[half.BFloat16](k.out[0])[lo:], w, words)
}

// store writes the codes and the scale of a block, where they are wanted.
func (k *lowBitAdam) store(f *lowbit.Format, codes, scales *executor.Tensor, b, bytes int, block []float32) {
	var unwanted [lowbit.MaxBlock]byte
	to := unwanted[:bytes]
	if codes != nil {
		to = codes.Data[b*bytes : (b+1)*bytes]
	}
	if scale := f.Encode(to, block); scales != nil {
		executor.Of[float32](scales)[b] = scale
	}
}

// keepBlock copies a block of the inputs, where there is no update.
func (k *lowBitAdam) keepBlock(b, size, bytes int) {
	w := size * k.in[0].DType.Bits() / 8
	for i, n := range [...]int{w, bytes, 4, bytes, 4} {
		if k.out[i] == nil {
			continue
		}
		from := [...]int{0, 2, 3, 4, 5}[i]
		copy(k.out[i].Data[b*n:(b+1)*n], k.in[from].Data[b*n:(b+1)*n])
	}
}
