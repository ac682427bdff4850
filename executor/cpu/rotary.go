package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// RotaryGeometry has the places of the angles for RotaryEmbedding, which rotates pairs of elements
// of each head: (a, b) becomes (a*cos - b*sin, a*sin + b*cos). A pair is elements i and i+Dim/2 of
// the first Dim ones, or, if pairs are interleaved, elements 2*i and 2*i+1. The other elements are
// unchanged.
//
//	https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
//
// and com.microsoft's RotaryEmbedding, whose positions may be one number, the first one.
type RotaryGeometry struct {
	CosAt, PosAt     int // inputs; the sines follow the cosines
	Interleaved      bool
	Seq, Heads, Size int
	Dim              int
	Packed           bool // heads lie side by side
	// Positions are the rows of angles that are chosen, [batch, seq]. If they are nil, angles begin
	// at element First, and RowBatch and RowSeq are the steps between batch entries and between
	// positions.
	Positions               []int64
	First, RowBatch, RowSeq int

	headsAttr, dimAttr int
	ms                 bool
}

// NewRotaryGeometry reads types and attributes; ms means com.microsoft's operator.
func NewRotaryGeometry(p *executor.Prep, ms bool) (g RotaryGeometry, err error) {
	g = RotaryGeometry{CosAt: 1, PosAt: 3, ms: ms, Interleaved: p.Node.Int("interleaved", 0) != 0}
	if ms {
		g.CosAt, g.PosAt = 2, 1
		if s := p.Node.Float("scale", 1); s != 1 {
			return g, p.Unsupported("no kernel for scale %v", s)
		}
		if p.Node.Int("is_packed_batching", 0) != 0 {
			return g, p.Unsupported("no kernel for batches of different lengths (is_packed_batching)")
		}
	}
	for _, i := range []int{g.CosAt, g.CosAt + 1} {
		if p.DType(i) != p.DType(0) {
			return g, p.Errorf("input %d has type %v, wanted %v as input 0", i, p.DType(i), p.DType(0))
		}
	}
	if p.Has(g.PosAt) && p.DType(g.PosAt) != graph.Int64 {
		return g, p.Errorf("the positions, input %d, have type %v, wanted int64", g.PosAt, p.DType(g.PosAt))
	}
	g.headsAttr, g.dimAttr = int(p.Node.Int("num_heads", 0)), int(p.Node.Int("rotary_embedding_dim", 0))
	if g.headsAttr < 0 || g.dimAttr < 0 || g.dimAttr%2 != 0 {
		return g, p.Errorf("attributes num_heads and rotary_embedding_dim are %d and %d, wanted none below 0 and "+
			"the second even", g.headsAttr, g.dimAttr)
	}
	return g, nil
}

// Read reads the shapes of the operands, and the positions, which are in host memory.
func (g *RotaryGeometry) Read(c *executor.Ctx) error {
	x := c.In(0)
	if err := g.sizes(c, x.Shape); err != nil {
		return err
	}
	return g.angles(c, x.Shape[0])
}

// sizes finds the heads in the shape [batch, heads, seq, size] or [batch, seq, heads*size].
func (g *RotaryGeometry) sizes(c *executor.Ctx, x []int) error {
	switch g.Packed = len(x) == 3; {
	case len(x) == 4:
		g.Heads, g.Seq, g.Size = x[1], x[2], x[3]
	case !g.Packed:
		return c.Errorf("input 0 has shape %v, wanted rank 3 or 4", x)
	case g.ms && g.dimAttr == 0:
		// The angles say how long a head is.
		cos := c.In(g.CosAt).Shape
		if len(cos) != 2 || cos[1] == 0 || x[2]%(2*cos[1]) != 0 {
			return c.Errorf("input 0 has shape %v and input %d %v; wanted heads of twice the second dim of the latter",
				x, g.CosAt, cos)
		}
		g.Seq, g.Size = x[1], 2*cos[1]
		g.Heads = x[2] / g.Size
	default:
		if g.headsAttr == 0 || x[2]%g.headsAttr != 0 {
			return c.Errorf("input 0 has shape %v, whose last dim num_heads %d does not divide", x, g.headsAttr)
		}
		g.Seq, g.Heads, g.Size = x[1], g.headsAttr, x[2]/g.headsAttr
	}
	if g.Dim = g.dimAttr; g.Dim == 0 {
		g.Dim = g.Size
	}
	if g.Dim > g.Size || g.Dim%2 != 0 {
		return c.Errorf("heads have %d elements, wanted an even number and not fewer than the %d to be turned",
			g.Size, g.Dim)
	}
	return nil
}

// angles finds the cosines and sines of every position: a table whose rows the positions choose, or
// a row for every batch entry and position.
func (g *RotaryGeometry) angles(c *executor.Ctx, batch int) error {
	cos, sin, pos := c.In(g.CosAt), c.In(g.CosAt+1), c.In(g.PosAt)
	half := g.Dim / 2
	s := cos.Shape
	if len(s) != sin.Rank() || !equalDims(s, sin.Shape) || len(s) == 0 || s[len(s)-1] != half {
		return c.Errorf("inputs %d and %d have shapes %v and %v, wanted the same with %d in the last dim",
			g.CosAt, g.CosAt+1, s, sin.Shape, half)
	}
	g.Positions, g.First = nil, 0
	if pos == nil {
		if len(s) != 3 || s[0] != batch && s[0] != 1 || s[1] != g.Seq {
			return c.Errorf("input %d has shape %v, wanted [%d %d %d], as there are no positions",
				g.CosAt, s, batch, g.Seq, half)
		}
		if g.RowSeq, g.RowBatch = half, 0; s[0] != 1 {
			g.RowBatch = g.Seq * half
		}
		return nil
	}
	if len(s) != 2 {
		return c.Errorf("input %d has shape %v, wanted rank 2, as there are positions", g.CosAt, s)
	}
	g.Positions = executor.Of[int64](pos)
	from := g.ms && pos.Rank() <= 1 && len(g.Positions) == 1
	if !from && (pos.Rank() != 2 || pos.Shape[0] != batch || pos.Shape[1] != g.Seq) {
		return c.Errorf("the positions, input %d, have shape %v, wanted [%d %d]", g.PosAt, pos.Shape, batch, g.Seq)
	}
	last := int64(0)
	if from {
		last = int64(max(g.Seq-1, 0))
	}
	for _, v := range g.Positions {
		if v < 0 || v+last >= int64(s[0]) && batch*g.Seq > 0 {
			return c.Errorf("position %d; input %d has %d positions", v+last, g.CosAt, s[0])
		}
	}
	if from {
		g.First, g.Positions, g.RowSeq, g.RowBatch = int(g.Positions[0])*half, nil, half, 0
	}
	return nil
}

// rotaryKernel turns pairs.
type rotaryKernel[T blas.Float] struct {
	RotaryGeometry
	cos, sin, x, y []T
}

// newRotary makes the kernels of RotaryEmbedding, com.microsoft's if ms is set.
func newRotary(ms bool) func(p *executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		g, err := NewRotaryGeometry(p, ms)
		if err != nil {
			return nil, err
		}
		switch p.DType(0) {
		case graph.Float32:
			return &rotaryKernel[float32]{RotaryGeometry: g}, nil
		case graph.Float64:
			return &rotaryKernel[float64]{RotaryGeometry: g}, nil
		}
		return nil, unsupportedTypes(p)
	}
}

// Run turns the pairs.
func (k *rotaryKernel[T]) Run(c *executor.Ctx) error {
	if err := k.Read(c); err != nil {
		return err
	}
	x := c.In(0)
	k.cos, k.sin = executor.Of[T](c.In(k.CosAt)), executor.Of[T](c.In(k.CosAt+1))
	k.x, k.y = executor.Of[T](x), executor.Of[T](c.Out(0, x.Shape...))
	c.Parallel(x.Shape[0]*k.Seq*k.Heads, 1+1<<13/max(1, k.Size), k)
	return nil
}

// Range turns heads lo..hi-1, as they lie in memory.
func (k *rotaryKernel[T]) Range(lo, hi int) {
	half := k.Dim / 2
	for r := lo; r < hi; r++ {
		b, s := r/(k.Heads*k.Seq), r%k.Seq
		if k.Packed {
			s = r / k.Heads % k.Seq
		}
		at := k.First + b*k.RowBatch + s*k.RowSeq
		if k.Positions != nil {
			at = int(k.Positions[b*k.Seq+s]) * half
		}
		x, y := k.x[r*k.Size:][:k.Size], k.y[r*k.Size:][:k.Size]
		cos, sin := k.cos[at:][:half], k.sin[at:][:half]
		if k.Interleaved {
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
		copy(y[k.Dim:], x[k.Dim:])
	}
}
