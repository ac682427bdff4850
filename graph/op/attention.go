package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// heads is an attention's sizes: queries [batch, headsQ, seqQ, size], keys [batch, headsKV, seqK,
// size] and values [batch, headsKV, seqK, sizeV], whatever form the operands have.
type heads struct {
	batch, headsQ, headsKV, seqQ, seqK, size, sizeV symbolic.Expr
}

// attentionRule: Q, K, V, mask, past key, past value, lengths give Y, present key, present
// value and the product of queries and keys. Operands have rank 4, with a head axis, or rank 3,
// with the heads side by side in the last axis and their numbers in attributes.
func attentionRule(c *Ctx) {
	if !c.rankIn(0, 3, 4) || !c.rankIn(1, 3, 4) || !c.rankIn(2, 3, 4) {
		return
	}
	q := c.Shape(0)
	if !q.Ranked {
		c.OutTensor(0, c.DType(0), q)
		return
	}
	if !c.wantRank(1, len(q.Dims)) || !c.wantRank(2, len(q.Dims)) {
		return
	}
	h := c.attentionHeads()
	if c.Has(4) != c.Has(5) {
		c.Errorf("has only one of past key (input 4) and past value (input 5), wanted both or none")
	}
	if !c.wantRank(4, 4) || !c.wantRank(5, 4) || c.Failed() {
		return
	}
	total := h.seqK
	if c.Has(4) {
		total = total.Add(c.Unify("the lengths of past key and past value", dimAt(c.Shape(4), 2), dimAt(c.Shape(5), 2)))
	}
	y := graph.Dims(h.batch, h.headsQ, h.seqQ, h.sizeV)
	if len(q.Dims) == 3 {
		y = graph.Dims(h.batch, h.seqQ, h.headsQ.Mul(h.sizeV))
	}
	c.OutTensor(0, c.DType(0), y)
	c.OutTensor(1, c.DType(1), graph.Dims(h.batch, h.headsKV, total, h.size))
	c.OutTensor(2, c.DType(2), graph.Dims(h.batch, h.headsKV, total, h.sizeV))
	c.OutTensor(3, c.DType(0), graph.Dims(h.batch, h.headsQ, h.seqQ, total))
}

// attentionHeads reads the sizes from operands of equal rank.
func (c *Ctx) attentionHeads() heads {
	q, k, v := c.Shape(0), c.Shape(1), c.Shape(2)
	h := heads{batch: c.Unify("the batch of queries and keys", dimAt(q, 0), dimAt(k, 0))}
	if len(q.Dims) == 4 {
		h.headsQ, h.seqQ = dimAt(q, 1), dimAt(q, 2)
		h.headsKV = c.Unify("the heads of keys and values", dimAt(k, 1), dimAt(v, 1))
		h.seqK = c.Unify("the lengths of keys and values", dimAt(k, 2), dimAt(v, 2))
		h.size = c.Unify("the head sizes of queries and keys", dimAt(q, 3), dimAt(k, 3))
		h.sizeV = dimAt(v, 3)
	} else {
		nq, nkv := c.NeedInt("q_num_heads"), c.NeedInt("kv_num_heads")
		if c.Failed() {
			return h
		}
		h.headsQ, h.headsKV = symbolic.Const(nq), symbolic.Const(nkv)
		h.seqQ = dimAt(q, 1)
		h.seqK = c.Unify("the lengths of keys and values", dimAt(k, 1), dimAt(v, 1))
		h.size = c.Unify("the head sizes of queries and keys",
			c.divided("the last dim of the queries", dimAt(q, 2), nq),
			c.divided("the last dim of the keys", dimAt(k, 2), nkv))
		h.sizeV = c.divided("the last dim of the values", dimAt(v, 2), nkv)
	}
	nq, ok1 := h.headsQ.Const()
	nkv, ok2 := h.headsKV.Const()
	if ok1 && ok2 && (nkv < 1 || nq%nkv != 0) {
		c.Errorf("has %d query heads and %d key heads; the first must be a multiple of the second", nq, nkv)
	}
	return h
}

// attentionFLOPs counts the two products, with the keys and with the values, two operations per
// multiply-add: 2·batch·headsQ·seqQ·seqK·(size + sizeV).
func attentionFLOPs(c *Ctx) symbolic.Expr {
	if !c.Shape(0).Ranked {
		return symbolic.Unknown()
	}
	h := c.attentionHeads()
	if c.Failed() {
		return symbolic.Unknown()
	}
	total := h.seqK
	if c.Has(4) {
		total = total.Add(dimAt(c.Shape(4), 2))
	}
	return mul(symbolic.Const(2), h.batch, h.headsQ, h.seqQ, total, h.size.Add(h.sizeV))
}

// rotaryEmbeddingRule: Y like X, which has rank 4, or rank 3 and the attribute num_heads.
func rotaryEmbeddingRule(c *Ctx) {
	if !c.rankIn(0, 3, 4) {
		return
	}
	if s := c.Shape(0); s.Rank() == 3 {
		heads := c.NeedInt("num_heads")
		if c.Failed() {
			return
		}
		c.divided("the last dim of input 0", s.Dims[2], heads)
	}
	c.Out(0, c.In(0))
}
