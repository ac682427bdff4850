package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// Weights of few bits a number, as ONNX Runtime's MatMulNBits and GatherBlockQuantized store them: rows of
// blocks of numbers that share a scale and a zero point, several numbers in a byte, the first in its lowest
// bits. The value of a number q is (q - zero)*scale.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherBlockQuantized

// bitsAt returns number i of a row of numbers of 2, 4 or 8 bits.
func bitsAt(row []byte, bits, i int) int32 {
	at := i * bits
	return int32(row[at/8]) >> (at % 8) & (1<<bits - 1)
}

// checkBits refuses attributes that no weight has.
func checkBits(p *executor.Prep, bits, block int) error {
	if bits != 2 && bits != 4 && bits != 8 {
		return p.Unsupported("no kernel for numbers of %d bits: wanted 2, 4 or 8", bits)
	}
	if block < 16 || block&(block-1) != 0 {
		return p.Errorf("attribute block_size is %d, wanted a power of two, 16 at least", block)
	}
	return nil
}

// matMulNBits computes Y = A Wᵀ + bias.
type matMulNBits struct {
	n, k, bits, block, blocks int

	b, zeroBits   []byte
	scales, zeros []float32
	group         []int32 // by column of W: its block; nil means consecutive
	w             []float32
	shape         []int
	product       blas.Gemm[float32]
}

func newMatMulNBits(p *executor.Prep) (executor.Kernel, error) {
	k := &matMulNBits{n: int(p.Node.Int("N", 0)), k: int(p.Node.Int("K", 0)), bits: int(p.Node.Int("bits", 4)),
		block: int(p.Node.Int("block_size", 0)), product: blas.Gemm[float32]{Alpha: 1}}
	if k.n <= 0 || k.k <= 0 {
		return nil, p.Errorf("attributes N and K are %d and %d, wanted positive numbers", k.n, k.k)
	}
	if err := checkBits(p, k.bits, k.block); err != nil {
		return nil, err
	}
	if p.DType(0) != graph.Float32 || p.DType(1) != graph.Uint8 || p.DType(2) != graph.Float32 {
		return nil, unsupportedTypes(p)
	}
	if p.Has(3) && p.DType(3) != graph.Uint8 && p.DType(3) != graph.Float32 {
		return nil, unsupportedTypes(p)
	}
	k.blocks = (k.k + k.block - 1) / k.block
	blas.Warm()
	return k, nil
}

// Workspace holds the weight in float32.
func (k *matMulNBits) Workspace(_, _ [][]int) int { return executor.RoundUp(4 * k.n * k.k) }

// Run makes the weight and multiplies.
func (k *matMulNBits) Run(c *executor.Ctx) error {
	if err := k.take(c); err != nil {
		return err
	}
	a := c.In(0)
	if a.Rank() == 0 || a.Shape[a.Rank()-1] != k.k {
		return c.Errorf("input 0 is %v, wanted rows of %d numbers", a, k.k)
	}
	k.shape = append(append(k.shape[:0], a.Shape[:a.Rank()-1]...), k.n)
	y := c.Out(0, k.shape...)
	k.w = executor.Cast[float32](c.Scratch(4 * k.n * k.k))[:k.n*k.k]
	c.Parallel(k.n, 1+1<<14/k.k, k)
	g := &k.product
	g.M, g.N, g.K, g.TransB = product(a.Shape[:len(a.Shape)-1]), k.n, k.k, true
	g.A, g.LDA, g.B, g.LDB, g.C, g.LDC = executor.Of[float32](a), k.k, k.w, k.k, executor.Of[float32](y), k.n
	runGemm(c, g)
	if bias := c.In(5); bias != nil {
		b, out := executor.Of[float32](bias), executor.Of[float32](y)
		for i := range out {
			out[i] += b[i%k.n]
		}
	}
	return nil
}

// take checks the operands that make the weight.
func (k *matMulNBits) take(c *executor.Ctx) error {
	b, scales, zeros, group, bias := c.In(1), c.In(2), c.In(3), c.In(4), c.In(5)
	if want := k.n * k.blocks * k.block * k.bits / 8; b.Len() != want {
		return c.Errorf("input 1 is %v, wanted %d bytes: %d rows of %d blocks of %d numbers of %d bits", b, want, k.n,
			k.blocks, k.block, k.bits)
	}
	if scales.Len() != k.n*k.blocks {
		return c.Errorf("input 2 is %v, wanted %d scales", scales, k.n*k.blocks)
	}
	k.b, k.scales, k.zeros, k.zeroBits, k.group = b.Data, executor.Of[float32](scales), nil, nil, nil
	switch {
	case zeros == nil:
	case zeros.DType == graph.Float32 && zeros.Len() == k.n*k.blocks:
		k.zeros = executor.Of[float32](zeros)
	case zeros.DType == graph.Uint8 && zeros.Len() == k.n*((k.blocks*k.bits+7)/8):
		k.zeroBits = zeros.Data
	default:
		return c.Errorf("input 3 is %v, wanted a zero point for each of %d blocks in %d rows", zeros, k.blocks, k.n)
	}
	if group != nil {
		k.group = executor.Of[int32](group)
		if len(k.group) < k.k {
			return c.Errorf("input 4 is %v, wanted the block of each of %d columns", group, k.k)
		}
		for i, g := range k.group[:k.k] {
			if g < 0 || int(g) >= k.blocks {
				return c.Errorf("input 4: element %d is %d, wanted the number of one of %d blocks", i, g, k.blocks)
			}
		}
	}
	if bias != nil && bias.Len() != k.n {
		return c.Errorf("input 5 is %v, wanted %d numbers", bias, k.n)
	}
	return nil
}

// Range makes rows of the weight.
func (k *matMulNBits) Range(lo, hi int) {
	rowBytes, zeroBytes := k.blocks*k.block*k.bits/8, (k.blocks*k.bits+7)/8
	for r := lo; r < hi; r++ {
		row, w := k.b[r*rowBytes:][:rowBytes], k.w[r*k.k:][:k.k]
		for i := range w {
			g := i / k.block
			if k.group != nil {
				g = int(k.group[i])
			}
			zero := float32(int32(1) << (k.bits - 1))
			switch {
			case k.zeros != nil:
				zero = k.zeros[r*k.blocks+g]
			case k.zeroBits != nil:
				zero = float32(bitsAt(k.zeroBits[r*zeroBytes:], k.bits, g))
			}
			w[i] = (float32(bitsAt(row, k.bits, i)) - zero) * k.scales[r*k.blocks+g]
		}
	}
}

// gatherBlockQuantized takes slices of a tensor along gather_axis; its numbers have a scale and a zero point
// for each block along the last axis.
type gatherBlockQuantized struct {
	bits, block, quantized int // attributes

	shape   []int
	indices []int64
}

func newGatherBlockQuantized(p *executor.Prep) (executor.Kernel, error) {
	k := &gatherBlockQuantized{bits: int(p.Node.Int("bits", 4)), block: int(p.Node.Int("block_size", 128)),
		quantized: int(p.Node.Int("quantize_axis", 1))}
	if err := checkBits(p, k.bits, k.block); err != nil {
		return nil, err
	}
	if p.DType(0) != graph.Uint8 || p.DType(2) != graph.Float32 || p.Has(3) && p.DType(3) != graph.Uint8 {
		return nil, unsupportedTypes(p)
	}
	if axis := p.Node.Int("gather_axis", 0); axis != 0 {
		return nil, p.Unsupported("no kernel for gather_axis %d: wanted rows", axis)
	}
	return k, nil
}

// Run takes the rows.
func (k *gatherBlockQuantized) Run(c *executor.Ctx) error {
	data, indices, scales, zeros := c.In(0), c.In(1), c.In(2), c.In(3)
	rank := data.Rank()
	if rank < 2 {
		return c.Errorf("input 0 is %v, wanted rows", data)
	}
	if k.quantized != rank-1 && k.quantized != -1 {
		return c.Errorf("attribute quantize_axis is %d and input 0 %v: wanted the last axis", k.quantized, data)
	}
	width := data.Shape[rank-1] * 8 / k.bits
	blocks := (width + k.block - 1) / k.block
	lines := product(data.Shape[:rank-1])
	if scales.Len() != lines*blocks {
		return c.Errorf("input 2 is %v, wanted %d scales", scales, lines*blocks)
	}
	zeroBytes := (blocks*k.bits + 7) / 8
	if zeros != nil && zeros.Len() != lines*zeroBytes {
		return c.Errorf("input 3 is %v, wanted a zero point for each of %d blocks in %d rows", zeros, blocks, lines)
	}
	k.shape = append(append(k.shape[:0], indices.Shape...), data.Shape[1:]...)
	k.shape[len(k.shape)-1] = width
	k.indices = appendIndices(k.indices[:0], indices)
	y, s := executor.Of[float32](c.Out(0, k.shape...)), executor.Of[float32](scales)
	inner := product(data.Shape[1 : rank-1]) // lines of a row
	at := 0
	for i, index := range k.indices {
		if index < 0 {
			index += int64(data.Shape[0])
		}
		if index < 0 || index >= int64(data.Shape[0]) {
			return c.Errorf("input 1: element %d is out of range for %d rows", i, data.Shape[0])
		}
		for line := int(index) * inner; line < (int(index)+1)*inner; line++ {
			row := data.Data[line*data.Shape[rank-1]:]
			for j := range width {
				zero := int32(1) << (k.bits - 1)
				if zeros != nil {
					zero = bitsAt(zeros.Data[line*zeroBytes:], k.bits, j/k.block)
				}
				y[at] = float32(bitsAt(row, k.bits, j)-zero) * s[line*blocks+j/k.block]
				at++
			}
		}
	}
	return nil
}

// appendIndices appends the elements of a tensor of int32 or int64.
func appendIndices(dst []int64, t *executor.Tensor) []int64 {
	if t.DType == graph.Int64 {
		return append(dst, executor.Of[int64](t)...)
	}
	for _, v := range executor.Of[int32](t) {
		dst = append(dst, int64(v))
	}
	return dst
}
