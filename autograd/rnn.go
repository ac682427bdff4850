package autograd

import (
	"slices"
	"strconv"

	"memopt/graph"
)

// The gradients of RNN, GRU and LSTM. The forward node keeps X and Y, which hold all states h of
// the past: so the gates of all steps are recomputed at once, by large products outside of any loop
// (only an LSTM's cell states need one, of elementwise work). The remaining work, step by step from
// the last to the first, is a Scan whose body turns the gradient of h_t into those of the gates'
// inputs and of h_{t-1}: by elementwise products with coefficients, and one product with R. The
// gradients of the weights and of X are again large products, of the gates' gradients with X, Y and
// W.

// recurrence is a recurrent node as its rule sees it. Time is the first axis of its operands, as
// with layout 0.
type recurrence struct {
	*Ctx
	gates      int // number of blocks in the weights
	batchFirst bool
	directions []bool // whether the direction runs backward in time
	acts       []rnnAct

	x, y, mask   Value // mask [seq, batch, 1]: the step is part of the sequence; None if all are
	dy, dyh, dyc Value
}

// way is one direction of a recurrence. G is gates*hidden.
type way struct {
	*recurrence
	back      bool     // runs backward in time
	acts      []rnnAct // of the direction
	x, y      Value    // [seq, batch, input], [seq, batch, hidden]
	w, r      Value    // [G, input], [G, hidden]
	wb, rb    Value    // [G] or None
	h0, c0    Value    // [batch, hidden]; zeros where left out
	peep      Value    // [3*hidden] or None
	dy        Value    // [seq, batch, hidden] or None
	dyh, dyc  Value    // [batch, hidden]; zeros where left out
	zeroState Value
}

// wayGrads are the gradients of one direction.
type wayGrads struct {
	gx, gr Value        // [seq, batch, G] of the products with W and R
	dr     func() Value // [G, hidden] of R
	dh, dc Value        // of the first states
	dp     Value        // of the peepholes
}

// The inputs of recurrent nodes.
const (
	rnnX = iota
	rnnW
	rnnR
	rnnB
	rnnLens
	rnnH0
	rnnC0
	rnnP
)

// recurrenceRule gives the inputs of a recurrent node their gradients; cell makes those of one
// direction.
func recurrenceRule(gates int, cell func(*way) wayGrads) Rule {
	return func(c *Ctx) {
		r := newRecurrence(c, gates)
		grads := map[int][]Value{}
		var dx Value = None
		for i := range r.directions {
			w := r.way(i)
			g := cell(w)
			w.weightGrads(grads, g)
			if c.Wants(rnnX) {
				part := c.MatMul(g.gx, w.w)
				if dx != None {
					part = c.Add(dx, part)
				}
				dx = part
			}
		}
		for slot := rnnW; slot <= rnnP; slot++ {
			if parts := grads[slot]; parts != nil {
				g := r.stackDirections(parts)
				if slot == rnnH0 || slot == rnnC0 {
					g = r.timeFirst(g, 1, 0, 2)
				}
				c.Set(slot, g)
			}
		}
		if dx != None {
			c.Set(rnnX, r.timeFirst(dx, 1, 0, 2))
		}
	}
}

// weightGrads appends the gradients of the operands that each direction has separately.
func (w *way) weightGrads(grads map[int][]Value, g wayGrads) {
	add := func(slot int, v func() Value) {
		if w.Wants(slot) {
			grads[slot] = append(grads[slot], v())
		}
	}
	add(rnnR, g.dr)
	add(rnnW, func() Value { return w.outerProduct(g.gx, w.x) })
	add(rnnB, func() Value {
		dw := w.ReduceSum(g.gx, false, 0, 1)
		dr := dw
		if g.gr != g.gx {
			dr = w.ReduceSum(g.gr, false, 0, 1)
		}
		return w.Concat(0, dw, dr)
	})
	add(rnnH0, func() Value { return g.dh })
	add(rnnC0, func() Value { return g.dc })
	add(rnnP, func() Value { return g.dp })
}

// newRecurrence reads the attributes and the operands that all directions share.
func newRecurrence(c *Ctx, gates int) *recurrence {
	n := c.Node
	switch {
	case c.Version < 7:
		c.Unsupported("operator sets below 7 have other operands")
	case n.Float("clip", 0) != 0:
		c.Unsupported("attribute clip")
	case n.Int("input_forget", 0) != 0:
		c.Unsupported("attribute input_forget")
	}
	c.Need(scanVersion)
	r := &recurrence{Ctx: c, gates: gates, batchFirst: c.Version >= 14 && n.Int("layout", 0) == 1, mask: None}
	switch n.Str("direction", "forward") {
	case "reverse":
		r.directions = []bool{true}
	case "bidirectional":
		r.directions = []bool{false, true}
	default:
		r.directions = []bool{false}
	}
	r.acts = rnnActs(c, gates, len(r.directions))
	r.x, r.y = r.timeFirst(c.In(rnnX), 1, 0, 2), r.timeFirst(c.Out(0), 1, 2, 0, 3)
	r.dy, r.dyh, r.dyc = r.timeFirst(c.Grad(0), 1, 2, 0, 3), r.timeFirst(c.Grad(1), 1, 0, 2),
		r.timeFirst(c.Grad(2), 1, 0, 2)
	if c.Has(rnnLens) {
		steps := c.Op("Range", nil, c.Int(0), c.Squeeze(c.Dim(r.x, 0), 0), c.Int(1))
		lens := c.Cast(c.In(rnnLens), graph.Int64)
		r.mask = c.Unsqueeze(c.Op("Less", nil, c.Unsqueeze(steps, 1), lens), 2)
	}
	return r
}

// timeFirst transposes a value of a node with layout 1, or back.
func (r *recurrence) timeFirst(v Value, perm ...int64) Value {
	if v == None || !r.batchFirst {
		return v
	}
	return r.Transpose(v, perm...)
}

// way returns direction i.
func (r *recurrence) way(i int) *way {
	each := len(r.acts) / len(r.directions)
	w := &way{recurrence: r, back: r.directions[i], acts: r.acts[i*each : (i+1)*each], x: r.x, zeroState: None,
		wb: None, rb: None}
	w.y, w.w, w.r = r.pick(r.y, 1, i), r.pick(r.In(rnnW), 0, i), r.pick(r.In(rnnR), 0, i)
	if r.Has(rnnB) {
		b := r.splitEqual(r.pick(r.In(rnnB), 0, i), 0, 2)
		w.wb, w.rb = b[0], b[1]
	}
	w.peep = r.pick(r.In(rnnP), 0, i)
	w.dy = r.pick(r.dy, 1, i)
	if w.dy != None {
		w.dy = w.masked(w.dy, w.Scalar(0, w.dy))
	}
	w.h0, w.dyh = w.state(r.In(rnnH0), i, true), w.state(r.dyh, i, false)
	if r.gates == lstmGates {
		w.c0, w.dyc = w.state(r.In(rnnC0), i, true), w.state(r.dyc, i, false)
	}
	return w
}

// pick returns the part of a value that belongs to direction i, without the axis of directions.
func (r *recurrence) pick(v Value, axis int64, i int) Value {
	switch {
	case v == None:
		return None
	case len(r.directions) == 1:
		return r.Squeeze(v, axis)
	}
	return r.Op("Gather", Attrs{A("axis", axis)}, v, r.Int(int64(i)))
}

// stackDirections is the inverse of pick, along axis 0.
func (r *recurrence) stackDirections(parts []Value) Value {
	whole := make([]Value, len(parts))
	for i, p := range parts {
		whole[i] = r.Unsqueeze(p, 0)
	}
	if len(whole) == 1 {
		return whole[0]
	}
	return r.Concat(0, whole...)
}

// state returns the direction's part of a state [directions, batch, hidden], or zeros. An input has
// its layout still.
func (w *way) state(v Value, i int, input bool) Value {
	if v != None {
		if input {
			v = w.timeFirst(v, 1, 0, 2)
		}
		return w.pick(v, 0, i)
	}
	if w.zeroState == None {
		w.zeroState = w.zeros(w.x, w.Dim(w.x, 1), w.Dim(w.r, 1))
	}
	return w.zeroState
}

// zeros is a tensor of zeros of the given dims, in the type of like.
func (e *emitter) zeros(like Value, dims ...Value) Value {
	raw, err := scalarBytes(e.DType(like), 0)
	e.must(err)
	zero := &graph.TensorData{DType: e.DType(like), Dims: []int64{1}, Source: graph.Raw(raw)}
	return e.Op("ConstantOfShape", Attrs{A("value", zero)}, e.Concat(0, dims...))
}

// splitEqual cuts a value into equal parts along an axis.
func (e *emitter) splitEqual(v Value, axis int64, parts int) []Value {
	attrs := Attrs{A("axis", axis)}
	if e.j.opset() >= splitCount {
		attrs = append(attrs, A("num_outputs", int64(parts)))
	}
	return slices.Clone(e.Ops("Split", parts, attrs, v))
}

// splitCount is the first operator set that tells Split the number of its parts.
const splitCount = 18

// masked returns a where the step is part of the sequence, else b.
func (w *way) masked(a, b Value) Value {
	if w.mask == None {
		return a
	}
	return w.Where(w.mask, a, b)
}

// previous shifts states by one step: the state before step t. first is the state before the first
// step.
func (w *way) previous(states, first Value) Value {
	first = w.Unsqueeze(first, 0)
	if w.back {
		// After its end a sequence has zeros in Y; its first step reads the first state.
		states = w.masked(states, first)
		return w.Concat(0, w.Slice(states, w.Vector(1), w.Vector(1<<62), w.Vector(0)), first)
	}
	return w.Concat(0, first, w.Slice(states, w.Vector(0), w.Vector(-1), w.Vector(0)))
}

// project returns v·wᵀ + the biases given.
func (w *way) project(v, weight Value, biases ...Value) Value {
	p := w.MatMul(v, w.Transpose(weight, 1, 0))
	if len(biases) > 1 {
		biases = []Value{w.Add(biases[0], biases[1])}
	}
	for _, b := range biases {
		p = w.Add(p, b)
	}
	return p
}

// biases lists the biases given of both products.
func (w *way) biases() []Value {
	if w.wb == None {
		return nil
	}
	return []Value{w.wb, w.rb}
}

// outerProduct sums gᵀ·v over steps and batch.
func (w *way) outerProduct(g, v Value) Value {
	return w.Op("Gemm", Attrs{A("transA", int64(1))}, w.flat(g), w.flat(v))
}

// flat joins steps and batch.
func (w *way) flat(v Value) Value { return w.Op("Flatten", Attrs{A("axis", int64(2))}, v) }

// keep is 1 after the end of a sequence, where the state stays as it is, or None if there are no
// such steps.
func (w *way) keep() Value {
	if w.mask == None {
		return None
	}
	return w.Where(w.mask, w.Scalar(0, w.x), w.Scalar(1, w.x))
}

// stepGrad is the gradient of h_t in the body of a Scan that runs in the opposite direction: that
// of the next step, and the part from Y.
func (w *way) stepGrad(s *scan, carried Value) Value {
	if w.dy == None {
		return carried
	}
	return s.Add(carried, s.Slice(w.dy, 0, !w.back))
}

// itoa formats a number for a name.
func itoa(i int) string { return strconv.Itoa(i) }
