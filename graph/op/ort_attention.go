package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// attentionMSRule: input [B, S, I] and the packed weights of queries, keys and values [I, Q+K+V];
// output [B, S, V] and, with a past, present [2, B, heads, past+S, V/heads].
func attentionMSRule(c *Ctx) {
	if !c.wantRank(0, 3) || !c.wantRank(1, 2) || !c.wantRank(4, 5) {
		return
	}
	heads := c.NeedInt("num_heads")
	x, w := c.Shape(0), c.Shape(1)
	c.Unify("the last dim of input 0 and the first of input 1", dimAt(x, 2), dimAt(w, 0))
	value := c.valueSize(dimAt(w, 1))
	size := c.divided("the values' hidden size", value, heads)
	if c.Failed() {
		return
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dimAt(x, 0), dimAt(x, 1), value))
	total := dimAt(x, 1)
	switch past := c.Shape(4); {
	case c.Has(4) && c.Int("past_present_share_buffer", 0) != 0:
		total = dimAt(past, 3)
	case c.Has(4):
		total = total.Add(dimAt(past, 3))
	}
	c.OutTensor(1, c.DType(0), graph.Dims(symbolic.Const(2), dimAt(x, 0), symbolic.Const(heads), total, size))
}

// valueSize returns V from the attribute qkv_hidden_sizes, else a third of the weights' columns.
func (c *Ctx) valueSize(columns symbolic.Expr) symbolic.Expr {
	sizes, given := c.IntList("qkv_hidden_sizes")
	if !given {
		return c.divided("the weights' second dim", columns, 3)
	}
	if len(sizes) != 3 || sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1 || sizes[0] > maxWindowInt ||
		sizes[1] > maxWindowInt || sizes[2] > maxWindowInt {
		c.Errorf("attribute qkv_hidden_sizes is %v, wanted the three sizes of queries, keys and values", sizes)
		return symbolic.Unknown()
	}
	c.Unify("the weights' second dim and the sum of qkv_hidden_sizes",
		columns, symbolic.Const(sizes[0]+sizes[1]+sizes[2]))
	return symbolic.Const(sizes[2])
}

func attentionMSFLOPs(c *Ctx) symbolic.Expr {
	x, w := c.Shape(0), c.Shape(1)
	total := dimAt(x, 1)
	if c.Has(4) {
		total = total.Add(dimAt(c.Shape(4), 3))
	}
	project := mul(symbolic.Const(2), x.Elements(), dimAt(w, 1))
	attend := mul(symbolic.Const(4), dimAt(x, 0), dimAt(x, 1), total, dimAt(c.OutType(0).Shape, 2))
	return project.Add(attend)
}

// multiHeadAttentionRule: the query is [B, S, D], or holds keys and values, too: [B, S, heads, 3,
// size]. The key is [B, T, D], holds the values, too: [B, T, heads, 2, size], or comes from a
// cache: [B, heads, T, size]. Outputs: result, present key, present value, products of queries and
// keys.
func multiHeadAttentionRule(c *Ctx) {
	if !c.rankIn(0, 3, 5) || !c.rankIn(1, 3, 4, 5) || !c.rankIn(2, 3, 4) || !c.wantRank(6, 4) || !c.wantRank(7, 4) {
		return
	}
	heads := c.NeedInt("num_heads")
	if c.Failed() {
		return
	}
	q := c.Shape(0)
	if !q.Ranked {
		c.OutTensor(0, c.DType(0), q)
		return
	}
	h := c.multiHead(heads)
	if c.Failed() {
		return
	}
	total := h.seqK
	switch {
	case c.Has(6) && c.Has(8): // the cache is as long as it will ever be
		total = dimAt(c.Shape(6), 2)
	case c.Has(6):
		total = total.Add(dimAt(c.Shape(6), 2))
	}
	c.OutTensor(0, c.DType(0), graph.Dims(h.batch, h.seqQ, h.headsQ.Mul(h.sizeV)))
	c.OutTensor(1, c.DType(0), graph.Dims(h.batch, h.headsQ, total, h.size))
	c.OutTensor(2, c.DType(0), graph.Dims(h.batch, h.headsQ, total, h.sizeV))
	c.OutTensor(3, c.DType(0), graph.Dims(h.batch, h.headsQ, h.seqQ, total))
}

func (c *Ctx) multiHead(n int64) heads {
	q, k, v := c.Shape(0), c.Shape(1), c.Shape(2)
	h := heads{batch: dimAt(q, 0), headsQ: symbolic.Const(n), headsKV: symbolic.Const(n), seqQ: dimAt(q, 1)}
	if len(q.Dims) == 5 {
		c.Unify("the heads of the query", dimAt(q, 2), h.headsQ)
		h.seqK, h.size, h.sizeV = h.seqQ, dimAt(q, 4), dimAt(q, 4)
		return h
	}
	h.size = c.divided("the last dim of the query", dimAt(q, 2), n)
	switch len(k.Dims) {
	case 5:
		h.seqK, h.sizeV = dimAt(k, 1), dimAt(k, 4)
	case 4:
		h.seqK, h.sizeV = dimAt(k, 2), dimAt(v, 3)
	default:
		h.seqK, h.sizeV = dimAt(k, 1), c.divided("the last dim of the value", dimAt(v, 2), n)
		if v.Rank() == 4 {
			h.sizeV = dimAt(v, 3)
		}
	}
	return h
}

func multiHeadFLOPs(c *Ctx) symbolic.Expr {
	heads := c.Int("num_heads", 1)
	if heads < 1 || !c.Shape(0).Ranked {
		return symbolic.Unknown()
	}
	h := c.multiHead(heads)
	total := h.seqK
	if c.Has(6) {
		total = total.Add(dimAt(c.Shape(6), 2))
	}
	return mul(symbolic.Const(2), h.batch, h.headsQ, h.seqQ, total, h.size.Add(h.sizeV))
}

// groupQueryAttentionRule: query [B, S, heads·size] with key and value [B, S, kv_heads·size], or
// the query holds all three side by side. The present's length is the past's where both share one
// buffer, which is how the operator is used with a past; else it is known only in a run.
func groupQueryAttentionRule(c *Ctx) {
	if !c.wantRank(0, 3) || !c.wantRank(1, 3) || !c.wantRank(2, 3) || !c.wantRank(3, 4) || !c.wantRank(4, 4) {
		return
	}
	heads, kv := c.NeedInt("num_heads"), c.NeedInt("kv_num_heads")
	if c.Failed() {
		return
	}
	if kv < 1 || heads < 1 || heads > maxWindowInt || heads%kv != 0 {
		c.Errorf("has num_heads %d and kv_num_heads %d; the first must be a multiple of the second", heads, kv)
		return
	}
	q := c.Shape(0)
	parts := heads
	if !c.Has(1) {
		parts += 2 * kv
	}
	size := c.divided("the last dim of the query", dimAt(q, 2), parts)
	present := graph.Dims(dimAt(q, 0), symbolic.Const(kv), symbolic.Unknown(), size)
	if c.Has(3) {
		present.Dims[2] = dimAt(c.Shape(3), 2)
	}
	c.OutTensor(0, c.DType(0), graph.Dims(dimAt(q, 0), dimAt(q, 1), size.Mul(symbolic.Const(heads))))
	c.OutTensor(1, c.DType(0), present)
	c.OutTensor(2, c.DType(0), present)
}

// groupQueryFLOPs counts as attentionFLOPs does, with the present's length for the keys'.
func groupQueryFLOPs(c *Ctx) symbolic.Expr {
	keys := dimAt(c.OutType(1).Shape, 2)
	if keys.IsUnknown() {
		keys = dimAt(c.Shape(0), 1)
	}
	return mul(symbolic.Const(4), c.OutElements(0), keys)
}

// rotaryEmbeddingMSRule: inputs X, positions, and the two caches; Y like X.
func rotaryEmbeddingMSRule(c *Ctx) {
	if c.rankIn(0, 3, 4) && c.wantRank(2, 2) && c.wantRank(3, 2) {
		c.Out(0, c.In(0))
	}
}
