package autograd

// expandMultiHeadAttention: com.microsoft's operator, with queries, keys and values of the form
// [batch, length, heads·size] and without a cache.
func expandMultiHeadAttention(c *Ctx) []Value {
	for i := 6; i < 10; i++ {
		if c.Has(i) {
			c.Unsupported("with a cache (input %d)", i)
		}
	}
	if !c.Has(1) || !c.Has(2) || c.Rank(c.In(0)) != 3 || c.Rank(c.In(1)) != 3 || c.Rank(c.In(2)) != 3 {
		c.Unsupported("with packed or cached operands")
	}
	heads := c.Node.Int("num_heads", 0)
	q, k, v := c.In(0), c.In(1), c.In(2)
	if c.Has(3) {
		size, ok := c.Ranked(q, 3)[2].Const()
		if !ok {
			c.Unsupported("with a bias and a width that is not static")
		}
		part := func(x Value, from, to int64) Value {
			return c.Add(x, c.Slice(c.In(3), c.Vector(from), c.Vector(to), c.Vector(0)))
		}
		q, k, v = part(q, 0, size), part(k, size, 2*size), part(v, 2*size, 1<<62)
	}
	return c.microsoftAttention(c.splitHeads(q, heads), c.splitHeads(k, heads), c.splitHeads(v, heads), 4, 5)
}

// microsoftAttention is the common part of com.microsoft's operators; mask and bias are the slots
// of the mask of paddings and of the addend of the scores.
func (c *Ctx) microsoftAttention(q, k, v Value, mask, bias int) []Value {
	heads := c.Node.Int("num_heads", 0)
	a := &attend{c: c, q: q, k: k, v: v, headsQ: heads, headsKV: heads, offset: None, mask: None, dead: None,
		scale: float64(c.Node.Float("scale", 0)), causal: c.Node.Int("unidirectional", 0) != 0}
	if c.Has(mask) {
		a.adds = append(a.adds, c.paddingBias(c.In(mask), q))
	}
	if c.Has(bias) {
		a.adds = append(a.adds, c.In(bias))
	}
	return []Value{c.joinHeads(a.run()), k, v}
}

// paddingBias is the filter value where a mask [batch, keys] or [batch, queries, keys] is 0, else
// 0.
func (c *Ctx) paddingBias(mask, like Value) Value {
	switch c.Rank(mask) {
	case 2:
		mask = c.Unsqueeze(mask, 1, 2)
	case 3:
		mask = c.Unsqueeze(mask, 1)
	default:
		c.Unsupported("with a mask of lengths")
	}
	filter := c.Scalar(float64(c.Node.Float("mask_filter_value", -10000)), like)
	return c.Where(c.Op("Equal", nil, mask, c.Scalar(0, mask)), filter, c.Scalar(0, like))
}

// expandAttentionMS: com.microsoft's Attention without a cache: one product with the packed weights
// makes queries, keys and values.
func expandAttentionMS(c *Ctx) []Value {
	if c.Has(4) || c.Has(6) || c.Node.Int("do_rotary", 0) != 0 {
		c.Unsupported("with a cache or rotary embeddings")
	}
	if c.Node.Output(1) != None {
		c.Unsupported("with an output of keys and values")
	}
	all := c.MatMul(c.In(0), c.In(1))
	if c.Has(2) {
		all = c.Add(all, c.In(2))
	}
	sizes := c.Node.IntList("qkv_hidden_sizes", nil)
	if len(sizes) != 3 {
		n, ok := c.Ranked(all, 3)[2].Const()
		if !ok {
			c.Unsupported("with a width that is not static")
		}
		sizes = []int64{n / 3, n / 3, n / 3}
	}
	heads := c.Node.Int("num_heads", 0)
	var parts [3]Value
	for i, part := range c.splitLast(all, sizes) {
		parts[i] = c.splitHeads(part, heads)
	}
	return c.microsoftAttention(parts[0], parts[1], parts[2], 3, 5)
}

// splitLast cuts axis 2 into parts of the given sizes.
func (c *Ctx) splitLast(v Value, sizes []int64) []Value {
	if c.j.opset() >= axesInput {
		return c.Ops("Split", len(sizes), Attrs{A("axis", int64(2))}, v, c.Vector(sizes...))
	}
	return c.Ops("Split", len(sizes), Attrs{A("axis", int64(2)), A("split", sizes)}, v)
}
