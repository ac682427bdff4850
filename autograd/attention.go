package autograd

import (
	"math"

	"memopt/graph"
)

// Attention operators are replaced by the nodes that define them:
//
//	Y = softmax(softcap(scale·Q·Kᵀ) + masks)·V
//
// so that each gradient is that of plain operators, and the planner decides which values are stashed, above
// all the probabilities. A query whose keys are all masked gets zeros, and has no gradient. Where several
// query heads share a key head, the queries of the group are the rows of one matrix: keys and values are
// not repeated.

// attend is an attention at work. Queries, keys and values are [batch, heads, length, size].
type attend struct {
	c               *Ctx
	q, k, v         Value
	headsQ, headsKV int64
	scale           float64 // 0 means one over the root of the size
	softcap         float64 // 0 means no cap
	causal          bool
	offset          Value   // the number of keys before the first query's, a scalar; None means 0
	adds            []Value // the summands of the scores
	// mask is added as well, and may be -∞, or bools, false for keys that are left out. None means that all
	// keys count.
	mask      Value
	precision graph.DType // of the softmax
	// Set by run: scores, probabilities, and true for queries whose keys are all masked, or None.
	products, shares, dead Value
}

// run returns Y, [batch, headsQ, length, sizeV].
func (a *attend) run() Value {
	c := a.c
	q, grouped := c.Mul(a.q, a.factor()), a.headsQ != a.headsKV
	if grouped {
		q = c.Reshape(q, c.Vector(0, a.headsKV, -1, 0))
	}
	scores := c.MatMul(q, c.Transpose(a.k, 0, 1, 3, 2))
	if grouped {
		scores = c.Reshape(scores, c.Vector(0, a.headsQ, -1, 0))
	}
	a.products = scores
	if a.softcap != 0 {
		limit := c.Scalar(a.softcap, scores)
		scores = c.Mul(c.Op("Tanh", nil, c.Div(scores, limit)), limit)
	}
	a.shares = a.softmax(a.masked(scores))
	p := a.shares
	if grouped {
		p = c.Reshape(p, c.Vector(0, a.headsKV, -1, 0))
	}
	y := c.MatMul(p, a.v)
	if grouped {
		y = c.Reshape(y, c.Vector(0, a.headsQ, -1, 0))
	}
	return a.orZero(y)
}

// orZero clears the rows of queries without a key.
func (a *attend) orZero(v Value) Value {
	if a.dead == None {
		return v
	}
	return a.c.Where(a.dead, a.c.Scalar(0, v), v)
}

// factor is the factor of the scores; the queries are multiplied by it, because they have fewer
// elements.
func (a *attend) factor() Value {
	c := a.c
	if a.scale != 0 {
		return c.Scalar(a.scale, a.q)
	}
	dims := c.Ranked(a.q, 4)
	if n, ok := dims[3].Const(); ok {
		return c.Scalar(1/math.Sqrt(float64(n)), a.q)
	}
	return c.Op("Reciprocal", nil, c.Op("Sqrt", nil, c.Cast(c.Dim(a.q, 3), c.DType(a.q))))
}

// masked adds the summands of the scores and lowers keys that are left out to -∞. The scores of queries without a key
// stay as they are, since a softmax of -∞ alone is not defined.
func (a *attend) masked(scores Value) Value {
	c := a.c
	for _, v := range a.adds {
		scores = c.Add(scores, v)
	}
	lowest := c.Scalar(math.Inf(-1), scores)
	if a.mask == None {
		if a.causal {
			scores = c.Where(a.later(), lowest, scores)
		}
		return scores
	}
	// The mask is the same for several heads, so that it is cheaper to change than the scores.
	mask, zero := a.mask, c.Scalar(0, scores)
	if c.DType(mask) == graph.Bool {
		mask = c.Where(mask, zero, lowest)
	}
	if a.causal {
		mask = c.Where(a.later(), lowest, mask)
	}
	a.dead = c.Op("Equal", nil, c.Reduce("ReduceMax", mask, true, -1), lowest)
	return c.Add(scores, c.Where(a.dead, zero, mask))
}

// later is true where a key comes after the query, [queries, keys].
func (a *attend) later() Value {
	c := a.c
	rows := c.upTo(a.q)
	if a.offset != None {
		rows = c.Add(rows, a.offset)
	}
	return c.Op("Less", nil, c.Unsqueeze(rows, 1), c.Unsqueeze(c.upTo(a.k), 0))
}

// upTo counts 0, 1, … along axis 2.
func (c *Ctx) upTo(v Value) Value {
	return c.Op("Range", nil, c.Int(0), c.Squeeze(c.Dim(v, 2), 0), c.Int(1))
}

// softmax is over the keys, in the precision that is asked for.
func (a *attend) softmax(scores Value) Value {
	c, d := a.c, a.c.DType(scores)
	if a.precision != graph.Undefined {
		scores = c.Cast(scores, a.precision)
	}
	return c.Cast(c.Op("Softmax", Attrs{A("axis", int64(-1))}, scores), d)
}

// splitHeads turns [batch, length, heads·size] into [batch, heads, length, size].
func (c *Ctx) splitHeads(v Value, heads int64) Value {
	return c.Transpose(c.Reshape(v, c.Vector(0, 0, heads, -1)), 0, 2, 1, 3)
}

// joinHeads is the inverse.
func (c *Ctx) joinHeads(v Value) Value {
	return c.Reshape(c.Transpose(v, 0, 2, 1, 3), c.Vector(0, 0, -1))
}

// headCount is the number of heads of [batch, heads, …].
func (c *Ctx) headCount(v Value) int64 {
	n, ok := c.Ranked(v, 2)[1].Const()
	if !ok {
		c.Unsupported("with a number of heads that is not static")
	}
	return n
}

// expandAttention: ONNX's operator.
func expandAttention(c *Ctx) []Value {
	if c.Has(6) {
		c.Unsupported("with lengths of keys (input 6)")
	}
	for _, name := range []string{"left_window_size", "right_window_size"} {
		if c.Node.Int(name, -1) >= 0 {
			c.Unsupported("with a window of keys (%s)", name)
		}
	}
	a := &attend{c: c, q: c.In(0), k: c.In(1), v: c.In(2), offset: None, mask: None, dead: None,
		scale: float64(c.Node.Float("scale", 0)), softcap: float64(c.Node.Float("softcap", 0)),
		causal: c.Node.Int("is_causal", 0) != 0, precision: graph.DType(c.Node.Int("softmax_precision", 0))}
	packed := c.Rank(a.q) == 3
	if packed {
		a.headsQ, a.headsKV = c.Node.Int("q_num_heads", 0), c.Node.Int("kv_num_heads", 0)
		a.q, a.k, a.v = c.splitHeads(a.q, a.headsQ), c.splitHeads(a.k, a.headsKV), c.splitHeads(a.v, a.headsKV)
	} else {
		a.headsQ, a.headsKV = c.headCount(a.q), c.headCount(a.k)
	}
	if c.Has(4) {
		a.k, a.v = c.Concat(2, c.In(4), a.k), c.Concat(2, c.In(5), a.v)
		a.offset = c.Squeeze(c.Dim(c.In(4), 2), 0)
	}
	a.attentionMask()
	y := a.run()
	if packed {
		y = c.joinHeads(y)
	}
	return []Value{y, a.k, a.v, a.stage()}
}

// attentionMask takes the mask, of bools or to be added. It must have an element for every key.
func (a *attend) attentionMask() {
	c := a.c
	if !c.Has(3) {
		return
	}
	mask := c.In(3)
	dims, keys := c.Ranked(mask, 0), c.Ranked(a.k, 3)
	if n := c.Rank(mask); n > 0 && c.Version >= 24 && !dims[n-1].Equal(keys[2]) {
		have, ok := dims[n-1].Const()
		if want, ok2 := keys[2].Const(); ok && (ok2 && have < want || have == 1) {
			c.Unsupported("with a mask of fewer keys")
		}
	}
	a.mask = mask
}

// stage is the output of scores: products or probabilities; the stages in between are not given.
func (a *attend) stage() Value {
	switch a.c.Node.Int("qk_matmul_output_mode", 0) {
	case 0:
		return a.products
	case 3:
		return a.orZero(a.shares)
	}
	return None
}
