package autograd

import "memopt/graph"

// Rounding to quantized numbers has the derivative 0 wherever it has one. Training takes the
// straight-through estimate in its place, as PyTorch's fake quantization does: q = round(x/s) + z counts
// as x/s + z where it is not cut off at the ends of q's type, and as constant where it is. The gradient
// of quantized numbers is a tensor of the floats that they stand for.

// isCode reports whether a type is one of quantized numbers, those of QuantizeLinear's output.
func isCode(d graph.DType) bool {
	switch d {
	case graph.Float8E4M3FN, graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ, graph.Float4E2M1,
		graph.Float8E8M0:
		return true
	}
	return false
}

// isQuantized reports whether a value holds the quantized numbers of floats.
func (j *joint) isQuantized(v Value) bool { return int(v) < len(j.quantized) && j.quantized[v] }

// markQuantized marks the outputs of quantizers, and the integers that other nodes make of them.
func (j *joint) markQuantized(order graph.Order) {
	j.quantized = make([]bool, len(j.g.Values))
	for _, id := range order {
		n := j.g.Nodes[id]
		row := Of(n.Kind)
		quantizes := row.Quantizes
		for slot, v := range n.Inputs {
			quantizes = quantizes || v != None && j.quantized[v] && j.differentiable(n, slot)
		}
		for _, v := range n.Captures() {
			quantizes = quantizes || j.quantized[v]
		}
		for _, v := range n.Outputs {
			if v != None && quantizes {
				t := j.g.Values[v].Type
				j.quantized[v] = !carriesFloat(t) && t.DType != graph.Bool
			}
		}
	}
}

// quantizer is a QuantizeLinear or DequantizeLinear as its rule sees it.
type quantizer struct {
	*Ctx
	wide  graph.DType // of the computation of gradients
	scale Value       // in that type, in a shape that broadcasts to x's
	zero  Value       // likewise; None if there is no zero point
}

// newQuantizer prepares scales and zero points.
func (c *Ctx) newQuantizer(g Value) *quantizer {
	q := &quantizer{Ctx: c, wide: c.normType(g)}
	if d := c.DType(c.In(1)); isCode(d) || !d.IsFloat() {
		c.Unsupported("its scale is %v", d)
	}
	q.scale = q.spread(c.Cast(c.In(1), q.wide))
	if c.Has(2) {
		q.zero = q.spread(c.Cast(c.In(2), q.wide))
	} else {
		q.zero = None
	}
	return q
}

// axis is the axis of the scales.
func (q *quantizer) axis() int64 {
	return q.Axis(q.Node.Int("axis", 1), q.Rank(q.Node.Input(0)))
}

// block is the number of elements along the axis with one scale; 0 means all of them if there is one scale, else one.
func (q *quantizer) block() int64 { return q.Node.Int("block_size", 0) }

// spread gives scales a shape that broadcasts to that of x.
func (q *quantizer) spread(v Value) Value {
	rank := q.Rank(q.Node.Input(0))
	switch have := q.Rank(v); {
	case have == 0:
		return v
	case q.block() != 0:
		return q.repeated(v)
	case have == 1 && q.Type(v).Shape.Dims[0].IsConst(1):
		return v
	case have == 1:
		return q.Unsqueeze(v, axesFrom(1, int64(rank)-q.axis())...)
	}
	q.Unsupported("its scales have rank %d", q.Rank(v))
	return None
}

// repeated repeats scales of blocks along the axis, as often as a block has elements; the last block
// may be shorter.
func (q *quantizer) repeated(v Value) Value {
	axis, x := q.axis(), q.Node.Input(0)
	block := q.Vector(q.block())
	at := q.Op("Div", nil, q.iota(q.Dim(x, axis)), block)
	return q.Op("Gather", Attrs{A("axis", axis)}, v, at)
}

// toScale sums the gradient of spread-out scales in the shape of the scales.
func (q *quantizer) toScale(g Value) Value {
	like := q.In(1)
	switch {
	case q.block() != 0:
		axis := q.axis()
		at := q.Op("Div", nil, q.iota(q.Dim(q.Node.Input(0), axis)), q.Vector(q.block()))
		g = q.scatterAlong(g, at, axis, q.Dim(like, axis), true)
	case q.Rank(like) == 1 && !q.Type(like).Shape.Dims[0].IsConst(1):
		var axes []int64
		for a := range int64(q.Rank(q.Node.Input(0))) {
			if a != q.axis() {
				axes = append(axes, a)
			}
		}
		g = q.ReduceSum(g, false, axes...)
	default:
		g = q.SumTo(g, like)
	}
	return q.Cast(g, q.DType(like))
}

// within reports where no element of the output is cut off at the ends of its type: where it is the
// rounded number itself.
func (q *quantizer) within() Value {
	free := q.Op("Round", nil, q.Div(q.Cast(q.In(0), q.wide), q.scale))
	if q.zero != None {
		free = q.Add(free, q.zero)
	}
	return q.mathEqual(free, q.Cast(q.Out(0), q.wide))
}

// quantizeLinearRule: the straight-through estimate. With q the output before the zero point is added,
// dX = dY/s and ds = -dY·X/s² where y is not cut off, and 0 where it is. Stashes X, the scales and the
// output. The zero point has the output's type, whose values cannot change a little.
func quantizeLinearRule(c *Ctx) {
	if isCode(c.DType(c.Out(0))) {
		c.Unsupported("the output is %v, whose steps differ", c.DType(c.Out(0)))
	}
	if !c.Wants(0) && !c.Wants(1) {
		return
	}
	q := c.newQuantizer(c.Grad(0))
	g := c.mathIf(q.within(), c.Div(c.Cast(c.Grad(0), q.wide), q.scale))
	if c.Wants(0) {
		c.setCast(g)
	}
	if c.Wants(1) {
		ratio := c.Div(c.Cast(c.In(0), q.wide), q.scale)
		c.Set(1, q.toScale(c.Neg(c.Mul(g, ratio))))
	}
}

// dequantizeLinearRule: with q the input less the zero point, dq = dY·s and ds = dY·q. Stashes the scales,
// and for their gradient the input.
func dequantizeLinearRule(c *Ctx) {
	q := c.newQuantizer(c.Grad(0))
	g := c.Cast(c.Grad(0), q.wide)
	if c.Wants(0) {
		c.Set(0, c.Mul(g, q.scale))
	}
	if c.Wants(1) {
		codes := c.Cast(c.In(0), q.wide)
		if q.zero != None {
			codes = c.Sub(codes, q.zero)
		}
		c.Set(1, q.toScale(c.Mul(g, codes)))
	}
}

// setCast gives input 0 a gradient in its type. That of quantized numbers keeps its own.
func (c *Ctx) setCast(g Value) {
	if x := c.Node.Input(0); !c.j.isQuantized(x) {
		g = c.Cast(g, c.DType(x))
	}
	c.Set(0, g)
}
