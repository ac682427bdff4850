package autograd

import "memopt/graph"

// rotaryEmbeddingRule: turning by an angle is undone by turning by its negative: the gradient of X is
// the operator itself on dY, with the sines' sign changed. Stashes cosines and sines; for their
// gradients also X.
func rotaryEmbeddingRule(c *Ctx) {
	if c.Wants(0) {
		in := []Value{c.Grad(0), c.In(1), c.Neg(c.In(2))}
		if c.Has(3) {
			in = append(in, c.In(3))
		}
		var attrs Attrs
		for _, name := range []string{"interleaved", "num_heads", "rotary_embedding_dim"} {
			if a := c.Node.Attr(name); a != nil {
				attrs = append(attrs, graph.Attr{Name: name, Value: a.Value})
			}
		}
		c.Set(0, c.Op("RotaryEmbedding", attrs, in...))
	}
	if c.Wants(1) || c.Wants(2) {
		c.rotaryAngles()
	}
}

// rotaryAngles makes the gradients of the cosines and sines. A pair (a, b) becomes
// (a·cos - b·sin, a·sin + b·cos), which has the gradient (g, h): so dcos = a·g + b·h and
// dsin = a·h - b·g, summed over heads, and over the places that read the same row of a table.
func (c *Ctx) rotaryAngles() {
	a, b := c.rotaryPairs(c.In(0))
	g, h := c.rotaryPairs(c.Grad(0))
	if c.Wants(1) {
		c.Set(1, c.rotaryTable(c.Add(c.Mul(a, g), c.Mul(b, h)), c.In(1)))
	}
	if c.Wants(2) {
		c.Set(2, c.rotaryTable(c.Sub(c.Mul(a, h), c.Mul(b, g)), c.In(2)))
	}
}

// rotaryPairs returns the first and the second elements of the pairs, each [batch, heads, seq, pairs].
func (c *Ctx) rotaryPairs(v Value) (first, second Value) {
	if c.Rank(v) == 3 { // heads side by side
		heads := c.Node.Int("num_heads", 0)
		v = c.Transpose(c.Reshape(v, c.Vector(0, 0, heads, -1)), 0, 2, 1, 3)
	}
	pairs, known := c.Ranked(c.In(1), 2)[c.Rank(c.In(1))-1].Const()
	if d := c.Node.Int("rotary_embedding_dim", 0); d > 0 {
		pairs, known = d/2, true
	}
	if !known {
		c.Unsupported("the number of pairs, the last dim of %q, is not known before the run", c.j.g.ValueName(c.In(1)))
	}
	if c.Node.Int("interleaved", 0) == 0 {
		return c.sliceAxis(v, 3, 0, pairs), c.sliceAxis(v, 3, pairs, 2*pairs)
	}
	v = c.Reshape(c.sliceAxis(v, 3, 0, 2*pairs), c.Vector(0, 0, 0, pairs, 2))
	return c.Squeeze(c.sliceAxis(v, 4, 0, 1), 4), c.Squeeze(c.sliceAxis(v, 4, 1, 2), 4)
}

// rotaryTable sums the gradient of a table of cosines or sines over the positions that read it.
func (c *Ctx) rotaryTable(g, table Value) Value {
	g = c.ReduceSum(g, false, 1)
	if !c.Has(3) {
		return c.SumTo(g, table)
	}
	return c.scatterAlong(g, c.In(3), 0, c.Dim(table, 0), true)
}
