package autograd

import "memopt/graph"

// expandSkipLayerNormalization: the sum of input, skip and bias, and its norm over the last axis.
func expandSkipLayerNormalization(c *Ctx) []Value {
	c.Need(17) // LayerNormalization
	sum := c.skipSum(4)
	attrs := Attrs{A("axis", int64(-1)), A("epsilon", c.Node.Float("epsilon", 1e-12))}
	in := []Value{sum, c.In(2)}
	if c.Has(3) {
		in = append(in, c.In(3))
	}
	out := c.Ops("LayerNormalization", 3, attrs, in...)
	return []Value{out[0], out[1], out[2], sum}
}

// expandSkipSimplified: the same without mean and shift, from its parts.
func expandSkipSimplified(c *Ctx) []Value {
	sum := c.skipSum(3)
	rank := int64(c.Rank(sum))
	square := c.meanOver(c.Mul(sum, sum), rank-1)
	inv := c.inverseDeviation(square, float64(c.Node.Float("epsilon", 1e-12)))
	y := c.Mul(c.Mul(sum, inv), c.In(2))
	return []Value{y, None, c.Cast(inv, graph.Float32), sum}
}

// skipSum adds input and skip, and the bias where there is one.
func (c *Ctx) skipSum(bias int) Value {
	sum := c.Add(c.In(0), c.In(1))
	if c.Has(bias) {
		sum = c.Add(sum, c.In(bias))
	}
	return sum
}
