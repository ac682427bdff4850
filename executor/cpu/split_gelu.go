package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/simd"
)

// newBiasSplitGelu makes the kernel of BiasSplitGelu: with x+bias split into two halves along the
// last dim, the first times gelu of the second. x is [N, S, C], the bias [C], the result [N, S,
// C/2].
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasSplitGelu
func newBiasSplitGelu(p *executor.Prep) (executor.Kernel, error) {
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	switch as := elemWide(p.DType(0)); as {
	case graph.Float32:
		return &splitGelu[float32]{gelu: simd.Gelu, in: elemIn(p, 0, as), out: elemOut(p, 0, as)}, nil
	case graph.Float64:
		return &splitGelu[float64]{gelu: mathLoop[float64](gelu), in: elemIn(p, 0, as), out: elemOut(p, 0, as)}, nil
	}
	return nil, unsupportedTypes(p)
}

// splitGelu computes in type T.
type splitGelu[T elemFloat] struct {
	gelu    func(dst, a []T)
	in      elemInput // of x and the bias: how elements become T
	out     elemOutput
	x, bias []byte
	width   int // of a row of the result
}

// Run computes the output.
func (k *splitGelu[T]) Run(c *executor.Ctx) error {
	x, bias := c.In(0), c.In(1)
	if x.Rank() != 3 || x.Shape[2]%2 != 0 {
		return c.Errorf("input 0 has shape %v, wanted three dims, the last of which is even", x.Shape)
	}
	if bias.Rank() != 1 || bias.Shape[0] != x.Shape[2] {
		return c.Errorf("input 1, the bias, has shape %v, wanted a vector as long as the last dim of input 0, %v",
			bias.Shape, x.Shape)
	}
	reserveBuffers(c)
	k.width = x.Shape[2] / 2
	k.x, k.bias, k.out.data = x.Data, bias.Data, nil
	if y := c.Out(0, x.Shape[0], x.Shape[1], k.width); y != nil {
		k.out.data = y.Data
		c.Parallel(x.Shape[0]*x.Shape[1], max(1, elemHeavy/max(1, k.width)), k)
	}
	return nil
}

// Range computes rows lo..hi-1.
func (k *splitGelu[T]) Range(lo, hi int) {
	m := takeBuffers()
	length := elemBytes / k.out.wide // of a chunk
	for row := lo; row < hi; row++ {
		for col := 0; col < k.width; col += length {
			n := min(length, k.width-col)
			left, right, t := elemFloats[T](&m.b[0], n), elemFloats[T](&m.b[1], n), elemFloats[T](&m.b[2], n)
			k.biased(left, t, row*2*k.width, col)
			k.biased(right, t, row*2*k.width, k.width+col)
			k.gelu(right, right)
			mulLoop(left, left, right)
			at, y := row*k.width+col, executor.Memory(left)
			dst := k.out.data[at*k.out.size : (at+n)*k.out.size]
			if k.out.store == nil {
				copy(dst, y)
			} else {
				k.out.store(dst, y)
			}
		}
	}
	m.giveBack()
}

// biased sets dst to elements of the row of x at start, from column col on, plus the bias. t is a
// buffer as long as dst.
func (k *splitGelu[T]) biased(dst, t []T, start, col int) {
	k.fetch(dst, k.x, start+col)
	k.fetch(t, k.bias, col)
	addLoop(dst, dst, t)
}

// fetch sets dst to elements of x or the bias from place at on.
func (k *splitGelu[T]) fetch(dst []T, data []byte, at int) {
	src := data[at*k.in.size : (at+len(dst))*k.in.size]
	if k.in.load == nil {
		copy(executor.Memory(dst), src)
	} else {
		k.in.load(executor.Memory(dst), src)
	}
}
