package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// rotaryKernel turns pairs of elements of each head by the angle of its position: (a, b) becomes
// (a*cos - b*sin, a*sin + b*cos). A pair is elements i and i+dim/2 of the first dim ones, or, where
// they are interleaved, elements 2*i and 2*i+1. The other elements stay.
//
//	https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
//
// and com.microsoft's RotaryEmbedding, whose positions may be one number, from which they count.
type rotaryKernel[T blas.Float] struct {
	p                 *executor.Prep
	cosAt, posAt      int // inputs; the sines follow the cosines
	heads, dimAttr    int
	interleaved, onMS bool

	seq, nHeads, size, dim int
	packed                 bool // heads lie side by side
	cos, sin               []T
	pos                    []int64
	rowBatch, rowSeq       int // how far apart the angles of batch entries and of positions are; with pos nil
	x, y                   []T
}

func newRotary(p *executor.Prep) (executor.Kernel, error) {
	return newRotaryAt(p, 1, 3, false)
}

func newRotaryMS(p *executor.Prep) (executor.Kernel, error) {
	if s := p.Node.Float("scale", 1); s != 1 {
		return nil, p.Unsupported("no kernel for scale %v", s)
	}
	if p.Node.Int("is_packed_batching", 0) != 0 {
		return nil, p.Unsupported("no kernel for batches of different lengths (is_packed_batching)")
	}
	return newRotaryAt(p, 2, 1, true)
}

func newRotaryAt(p *executor.Prep, cosAt, posAt int, onMS bool) (executor.Kernel, error) {
	for _, i := range []int{cosAt, cosAt + 1} {
		if p.DType(i) != p.DType(0) {
			return nil, p.Errorf("input %d has type %v, wanted %v as input 0", i, p.DType(i), p.DType(0))
		}
	}
	if p.Has(posAt) && p.DType(posAt) != graph.Int64 {
		return nil, p.Errorf("the positions, input %d, have type %v, wanted int64", posAt, p.DType(posAt))
	}
	switch p.DType(0) {
	case graph.Float32:
		return newRotaryOf[float32](p, cosAt, posAt, onMS)
	case graph.Float64:
		return newRotaryOf[float64](p, cosAt, posAt, onMS)
	}
	return nil, unsupportedTypes(p)
}

func newRotaryOf[T blas.Float](p *executor.Prep, cosAt, posAt int, onMS bool) (executor.Kernel, error) {
	k := &rotaryKernel[T]{p: p, cosAt: cosAt, posAt: posAt, onMS: onMS}
	k.heads, k.dimAttr = int(p.Node.Int("num_heads", 0)), int(p.Node.Int("rotary_embedding_dim", 0))
	k.interleaved = p.Node.Int("interleaved", 0) != 0
	if k.heads < 0 || k.dimAttr < 0 || k.dimAttr%2 != 0 {
		return nil, p.Errorf("attributes num_heads and rotary_embedding_dim are %d and %d, wanted none below 0 and the second even", k.heads, k.dimAttr)
	}
	return k, nil
}

// Run turns the pairs.
func (k *rotaryKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.sizes(c, x.Shape); err != nil {
		return err
	}
	if err := k.angles(c, x.Shape[0]); err != nil {
		return err
	}
	k.x, k.y = executor.Of[T](x), executor.Of[T](c.Out(0, x.Shape...))
	c.Parallel(x.Shape[0]*k.seq*k.nHeads, 1+1<<13/max(1, k.size), k)
	return nil
}

// sizes finds the heads in the shape [batch, heads, seq, size] or [batch, seq, heads*size].
func (k *rotaryKernel[T]) sizes(c *executor.Ctx, x []int) error {
	switch k.packed = len(x) == 3; {
	case len(x) == 4:
		k.nHeads, k.seq, k.size = x[1], x[2], x[3]
	case !k.packed:
		return c.Errorf("input 0 has shape %v, wanted rank 3 or 4", x)
	case k.onMS && k.dimAttr == 0:
		// The angles say how long a head is.
		cos := c.In(k.cosAt).Shape
		if len(cos) != 2 || cos[1] == 0 || x[2]%(2*cos[1]) != 0 {
			return c.Errorf("input 0 has shape %v and input %d %v; wanted heads of twice the second dim of the latter", x, k.cosAt, cos)
		}
		k.seq, k.size = x[1], 2*cos[1]
		k.nHeads = x[2] / k.size
	default:
		if k.heads == 0 || x[2]%k.heads != 0 {
			return c.Errorf("input 0 has shape %v, whose last dim num_heads %d does not divide", x, k.heads)
		}
		k.seq, k.nHeads, k.size = x[1], k.heads, x[2]/k.heads
	}
	if k.dim = k.dimAttr; k.dim == 0 {
		k.dim = k.size
	}
	if k.dim > k.size || k.dim%2 != 0 {
		return c.Errorf("heads have %d elements, wanted an even number and not fewer than the %d to be turned", k.size, k.dim)
	}
	return nil
}

// angles finds the cosines and sines of every position: a table with a row per position, of
// which the positions choose, or rows for every batch entry and position.
func (k *rotaryKernel[T]) angles(c *executor.Ctx, batch int) error {
	cos, sin, pos := c.In(k.cosAt), c.In(k.cosAt+1), c.In(k.posAt)
	half := k.dim / 2
	s := cos.Shape
	if len(s) != sin.Rank() || !equalDims(s, sin.Shape) || len(s) == 0 || s[len(s)-1] != half {
		return c.Errorf("inputs %d and %d have shapes %v and %v, wanted the same with %d in the last dim", k.cosAt, k.cosAt+1, s, sin.Shape, half)
	}
	k.cos, k.sin, k.pos = executor.Of[T](cos), executor.Of[T](sin), nil
	if pos == nil {
		if len(s) != 3 || s[0] != batch && s[0] != 1 || s[1] != k.seq {
			return c.Errorf("input %d has shape %v, wanted [%d %d %d], as there are no positions", k.cosAt, s, batch, k.seq, half)
		}
		if k.rowSeq, k.rowBatch = half, 0; s[0] != 1 {
			k.rowBatch = k.seq * half
		}
		return nil
	}
	if len(s) != 2 {
		return c.Errorf("input %d has shape %v, wanted rank 2, as there are positions", k.cosAt, s)
	}
	k.pos = executor.Of[int64](pos)
	from := k.onMS && pos.Rank() <= 1 && len(k.pos) == 1
	if !from && (pos.Rank() != 2 || pos.Shape[0] != batch || pos.Shape[1] != k.seq) {
		return c.Errorf("the positions, input %d, have shape %v, wanted [%d %d]", k.posAt, pos.Shape, batch, k.seq)
	}
	last := int64(0)
	if from {
		last = int64(max(k.seq-1, 0))
	}
	for _, v := range k.pos {
		if v < 0 || v+last >= int64(s[0]) && batch*k.seq > 0 {
			return c.Errorf("position %d; input %d has %d positions", v+last, k.cosAt, s[0])
		}
	}
	if from {
		first := int(k.pos[0]) * half
		k.pos, k.rowSeq, k.rowBatch = nil, half, 0
		k.cos, k.sin = k.cos[min(first, len(k.cos)):], k.sin[min(first, len(k.sin)):]
	}
	return nil
}

// Range turns heads lo..hi-1, as they lie in memory.
func (k *rotaryKernel[T]) Range(lo, hi int) {
	half := k.dim / 2
	for r := lo; r < hi; r++ {
		b, s := r/(k.nHeads*k.seq), r%k.seq
		if k.packed {
			s = r / k.nHeads % k.seq
		}
		at := b*k.rowBatch + s*k.rowSeq
		if k.pos != nil {
			at = int(k.pos[b*k.seq+s]) * half
		}
		x, y := k.x[r*k.size:][:k.size], k.y[r*k.size:][:k.size]
		cos, sin := k.cos[at:][:half], k.sin[at:][:half]
		if k.interleaved {
			for i, cs := range cos {
				u, v := x[2*i], x[2*i+1]
				y[2*i], y[2*i+1] = u*cs-v*sin[i], u*sin[i]+v*cs
			}
		} else {
			x1, x2, y1, y2 := x[:half], x[half:][:half], y[:half], y[half:][:half]
			for i, cs := range cos {
				u, v := x1[i], x2[i]
				y1[i], y2[i] = u*cs-v*sin[i], u*sin[i]+v*cs
			}
		}
		copy(y[k.dim:], x[k.dim:])
	}
}
