package cpu

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// attentionKernel is https://onnx.ai/onnx/operators/onnx__Attention.html: inputs Q, K, V, mask, past key, past
// value, lengths of keys; outputs Y, present key, present value, scores.
//
// The softcap comes before the masks, as the operator's description has had it since the correction of 2026 for
// both versions: otherwise masked keys would get finite scores.
type attentionKernel[T blas.Float] struct {
	p      *executor.Prep
	core   attentionCore[T]
	cache  attentionCache[T]
	heads  [2]int
	shapes [][]int
}

// softmaxDouble is float64's number in the attribute softmax_precision.
const softmaxDouble = 11

func newAttention(p *executor.Prep) (executor.Kernel, error) {
	if !p.Has(1) || !p.Has(2) {
		return nil, p.Errorf("has no keys (input 1) or no values (input 2)")
	}
	for i, d := range p.In {
		switch {
		case d == graph.Undefined || d == p.DType(0):
		case i == 3 && d == graph.Bool:
		case i == 6 && d == graph.Int64 && p.Version >= 24:
		default:
			return nil, p.Unsupported("input %d has type %v, and input 0 %v", i, d, p.DType(0))
		}
	}
	switch p.DType(0) {
	case graph.Float32:
		return newAttentionOf[float32](p)
	case graph.Float64:
		return newAttentionOf[float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newAttentionOf[T blas.Float](p *executor.Prep) (executor.Kernel, error) {
	blas.Warm()
	k := &attentionKernel[T]{p: p}
	k.heads = [2]int{int(p.Node.Int("q_num_heads", 0)), int(p.Node.Int("kv_num_heads", 0))}
	k.core.causal = p.Node.Int("is_causal", 0) != 0
	k.core.softcap = T(p.Node.Float("softcap", 0))
	k.core.stage = int(p.Node.Int("qk_matmul_output_mode", 0))
	k.core.wide = p.Node.Int("softmax_precision", 0) == softmaxDouble
	if k.core.stage < 0 || k.core.stage > 3 {
		return nil, p.Errorf("attribute qk_matmul_output_mode is %d, wanted 0 to 3", k.core.stage)
	}
	if k.core.softcap < 0 {
		return nil, p.Errorf("attribute softcap is %v, wanted none below 0", k.core.softcap)
	}
	if p.Has(4) != p.Has(5) {
		return nil, p.Errorf("has only one of past key (input 4) and past value (input 5), wanted both or none")
	}
	return k, nil
}

// Workspace holds presents that nobody wants, and the scores at work.
func (k *attentionKernel[T]) Workspace(in, _ [][]int) int {
	var s attentionSizes
	if k.sizes(in, &s) != nil {
		return 0
	}
	core := attentionCore[T]{attentionSizes: s}
	var e [1]T
	bytes := len(executor.Memory(e[:]))
	n := executor.RoundUp(bytes * core.block(k.p.Threads))
	if s.past > 0 {
		n += executor.RoundUp(bytes*s.batch*s.headsKV*s.total*s.size) + executor.RoundUp(bytes*s.batch*s.headsKV*s.total*s.sizeV)
	}
	return n
}

// sizes reads and checks the operands' shapes.
func (k *attentionKernel[T]) sizes(in [][]int, s *attentionSizes) error {
	q, key, v := in[0], in[1], in[2]
	switch {
	case len(q) == 4 && len(key) == 4 && len(v) == 4:
		*s = attentionSizes{batch: q[0], headsQ: q[1], headsKV: key[1], seqQ: q[2], total: key[2], size: q[3], sizeV: v[3]}
		if key[0] != q[0] || v[0] != q[0] || v[1] != key[1] || v[2] != key[2] || key[3] != q[3] {
			return fmt.Errorf("queries, keys and values have shapes %v, %v and %v, which do not fit", q, key, v)
		}
	case len(q) == 3 && len(key) == 3 && len(v) == 3:
		nq, nkv := k.heads[0], k.heads[1]
		if nq < 1 || nkv < 1 || q[2]%nq != 0 || key[2]%nkv != 0 || v[2]%nkv != 0 {
			return fmt.Errorf("queries, keys and values have shapes %v, %v and %v, which %d query heads and %d key heads do not divide", q, key, v, nq, nkv)
		}
		*s = attentionSizes{batch: q[0], headsQ: nq, headsKV: nkv, seqQ: q[1], total: key[1], size: q[2] / nq, sizeV: v[2] / nkv}
		if key[0] != q[0] || v[0] != q[0] || v[1] != key[1] || key[2]/nkv != s.size {
			return fmt.Errorf("queries, keys and values have shapes %v, %v and %v, which do not fit", q, key, v)
		}
	default:
		return fmt.Errorf("queries, keys and values have shapes %v, %v and %v, wanted rank 3 or 4", q, key, v)
	}
	if s.headsKV < 1 || s.headsQ%s.headsKV != 0 {
		return fmt.Errorf("has %d query heads and %d key heads; the first must be a multiple of the second", s.headsQ, s.headsKV)
	}
	if len(in) > 5 && in[4] != nil && in[5] != nil {
		pk, pv := in[4], in[5]
		if len(pk) != 4 || len(pv) != 4 || pk[0] != s.batch || pv[0] != s.batch || pk[1] != s.headsKV || pv[1] != s.headsKV ||
			pk[2] != pv[2] || pk[3] != s.size || pv[3] != s.sizeV {
			return fmt.Errorf("past key and value have shapes %v and %v, wanted [%d %d length %d] and [%d %d length %d]",
				pk, pv, s.batch, s.headsKV, s.size, s.batch, s.headsKV, s.sizeV)
		}
		s.past = pk[2]
		s.total += s.past
	}
	return nil
}

// Run computes Y.
func (k *attentionKernel[T]) Run(c *executor.Ctx) error {
	k.shapes = k.shapes[:0]
	for i := range c.Inputs() {
		var s []int
		if t := c.In(i); t != nil {
			s = t.Shape
		}
		k.shapes = append(k.shapes, s)
	}
	a := &k.core
	if err := k.sizes(k.shapes, &a.attentionSizes); err != nil {
		return err
	}
	if err := k.masks(c); err != nil {
		return err
	}
	if a.scale = T(k.p.Node.Float("scale", 0)); k.p.Node.Attr("scale") == nil {
		a.scale = T(1 / math.Sqrt(float64(a.size)))
	}
	k.operands(c)
	a.scores = nil
	if t := c.Out(3, a.batch, a.headsQ, a.seqQ, a.total); t != nil {
		a.scores = executor.Of[T](t)
	}
	a.compute(c)
	return nil
}

// operands finds the heads of queries, keys, values and Y. Keys and values that follow a cache
// are put behind it.
func (k *attentionKernel[T]) operands(c *executor.Ctx) {
	a := &k.core
	q, key, v := executor.Of[T](c.In(0)), executor.Of[T](c.In(1)), executor.Of[T](c.In(2))
	fresh := a.total - a.past
	if c.In(0).Rank() == 3 {
		a.q, a.y = packedHeads(q, a.seqQ, a.headsQ, a.size), packedHeads[T](nil, a.seqQ, a.headsQ, a.sizeV)
		a.k, a.v = packedHeads(key, fresh, a.headsKV, a.size), packedHeads(v, fresh, a.headsKV, a.sizeV)
		a.y.data = executor.Of[T](c.Out(0, a.batch, a.seqQ, a.headsQ*a.sizeV))
	} else {
		a.q, a.y = separateHeads(q, a.seqQ, a.headsQ, a.size), separateHeads[T](nil, a.seqQ, a.headsQ, a.sizeV)
		a.k, a.v = separateHeads(key, fresh, a.headsKV, a.size), separateHeads(v, fresh, a.headsKV, a.sizeV)
		a.y.data = executor.Of[T](c.Out(0, a.batch, a.headsQ, a.seqQ, a.sizeV))
	}
	a.k = k.present(c, 1, 4, a.k, a.size)
	a.v = k.present(c, 2, 5, a.v, a.sizeV)
}

// present returns the keys or values from the first of the cache to the last, and writes them to
// output out if it is wanted.
func (k *attentionKernel[T]) present(c *executor.Ctx, out, past int, fresh attentionHeads[T], size int) attentionHeads[T] {
	a := &k.core
	if a.past == 0 && !c.Wants(out) {
		return fresh
	}
	var data []T
	if t := c.Out(out, a.batch, a.headsKV, a.total, size); t != nil {
		data = executor.Of[T](t)
	} else {
		data = executor.ScratchOf[T](c, a.batch*a.headsKV*a.total*size)
	}
	k.cache = attentionCache[T]{new: fresh, all: separateHeads(data, a.total, a.headsKV, size),
		heads: a.headsKV, past: a.past, total: a.total, size: size}
	if a.past > 0 {
		k.cache.old = separateHeads(executor.Of[T](c.In(past)), a.past, a.headsKV, size)
	}
	c.Parallel(a.batch*a.headsKV, 1+1<<13/max(1, a.total*size), &k.cache)
	return k.cache.all
}

// masks reads the mask and the lengths.
func (k *attentionKernel[T]) masks(c *executor.Ctx) error {
	a := &k.core
	a.mask, a.lengths = attentionMask[T]{}, nil
	if t := c.In(3); t != nil {
		if !a.mask.set(t.Shape, &a.attentionSizes, k.p.Version >= 24) {
			return c.Errorf("the mask, input 3, has shape %v, wanted one that broadcasts to [%d %d %d %d]", t.Shape, a.batch, a.headsQ, a.seqQ, a.total)
		}
		if t.DType == graph.Bool {
			a.mask.admit = executor.Of[uint8](t)
		} else {
			a.mask.add = executor.Of[T](t)
		}
	}
	if t := c.In(6); t != nil {
		if t.Rank() != 1 || t.Shape[0] != a.batch {
			return c.Errorf("the keys' lengths, input 6, have shape %v, wanted [%d]", t.Shape, a.batch)
		}
		a.lengths = executor.Of[int64](t)
		for b, n := range a.lengths {
			if n < 0 || n > int64(a.total) {
				return c.Errorf("input 6 says that batch entry %d has %d keys; there are %d", b, n, a.total)
			}
		}
	}
	return nil
}
