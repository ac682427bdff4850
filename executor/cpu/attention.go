package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// attentionKernel is https://onnx.ai/onnx/operators/onnx__Attention.html: inputs Q, K, V, mask,
// past key, past value, lengths of keys; outputs Y, present key, present value, scores.
//
// The softcap comes before the masks, as in the operator's description since its correction in
// 2026, for both versions: otherwise masked keys would get finite scores.
type attentionKernel[T blas.Float] struct {
	p      *executor.Prep
	core   attentionCore[T]
	cache  attentionCache[T]
	heads  [2]int
	shapes [][]int
}

// softmaxDouble is float64's number in the attribute softmax_precision.
const softmaxDouble = 11

// RefuseWindows returns an error where queries attend to a window of keys, as of operator set 25.
func RefuseWindows(p *executor.Prep) error {
	for _, name := range []string{"left_window_size", "right_window_size"} {
		if n := p.Node.Int(name, -1); n >= 0 {
			return p.Unsupported("attribute %s is %d: windows of keys have no kernel", name, n)
		}
	}
	return nil
}

func newAttention(p *executor.Prep) (executor.Kernel, error) {
	if !p.Has(1) || !p.Has(2) {
		return nil, p.Errorf("has no keys (input 1) or no values (input 2)")
	}
	if err := RefuseWindows(p); err != nil {
		return nil, err
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

// Workspace holds the present keys and values that are not wanted as outputs, and the scores in
// progress.
func (k *attentionKernel[T]) Workspace(in, _ [][]int) int {
	var s AttentionSizes
	if ReadAttention(&s, in, k.heads) != nil {
		return 0
	}
	core := attentionCore[T]{AttentionSizes: s}
	var e [1]T
	bytes := len(executor.Memory(e[:]))
	n := executor.RoundUp(bytes * core.block(k.p.Threads))
	if s.Past > 0 {
		n += executor.RoundUp(bytes*s.Batch*s.HeadsKV*s.Total*s.Size) +
			executor.RoundUp(bytes*s.Batch*s.HeadsKV*s.Total*s.SizeV)
	}
	return n
}

// Run computes Y.
func (k *attentionKernel[T]) Run(c *executor.Ctx) error {
	k.shapes = k.shapes[:0]
	for i := range c.Inputs() {
		k.shapes = append(k.shapes, c.Shape(i))
	}
	a := &k.core
	if err := ReadAttention(&a.AttentionSizes, k.shapes, k.heads); err != nil {
		return err
	}
	if err := k.masks(c); err != nil {
		return err
	}
	if a.scale = T(k.p.Node.Float("scale", 0)); k.p.Node.Attr("scale") == nil {
		a.scale = T(1 / math.Sqrt(float64(a.Size)))
	}
	k.operands(c)
	a.scores = nil
	if t := c.Out(3, a.Batch, a.HeadsQ, a.SeqQ, a.Total); t != nil {
		a.scores = executor.Of[T](t)
	}
	a.compute(c)
	return nil
}

// operands finds the heads of queries, keys, values and Y. Keys and values that follow a cache are
// appended to it.
func (k *attentionKernel[T]) operands(c *executor.Ctx) {
	a := &k.core
	q, key, v := executor.Of[T](c.In(0)), executor.Of[T](c.In(1)), executor.Of[T](c.In(2))
	fresh := a.Total - a.Past
	layout := SeparateHeads
	if c.In(0).Rank() == 3 {
		layout = PackedHeads
		a.y.data = executor.Of[T](c.Out(0, a.Batch, a.SeqQ, a.HeadsQ*a.SizeV))
	} else {
		a.y.data = executor.Of[T](c.Out(0, a.Batch, a.HeadsQ, a.SeqQ, a.SizeV))
	}
	a.y.HeadLayout = layout(a.SeqQ, a.HeadsQ, a.SizeV)
	a.q = attentionHeads[T]{q, layout(a.SeqQ, a.HeadsQ, a.Size)}
	a.k, a.v = attentionHeads[T]{key, layout(fresh, a.HeadsKV, a.Size)},
		attentionHeads[T]{v, layout(fresh, a.HeadsKV, a.SizeV)}
	a.k = k.present(c, 1, 4, a.k, a.Size)
	a.v = k.present(c, 2, 5, a.v, a.SizeV)
}

// present returns the keys or values from the first of the cache to the last, and writes them to
// output out if it is wanted.
func (k *attentionKernel[T]) present(
	c *executor.Ctx, out, past int, fresh attentionHeads[T], size int,
) attentionHeads[T] {
	a := &k.core
	if a.Past == 0 && !c.Wants(out) {
		return fresh
	}
	var data []T
	if t := c.Out(out, a.Batch, a.HeadsKV, a.Total, size); t != nil {
		data = executor.Of[T](t)
	} else {
		data = executor.ScratchOf[T](c, a.Batch*a.HeadsKV*a.Total*size)
	}
	k.cache = attentionCache[T]{new: fresh, all: attentionHeads[T]{data, SeparateHeads(a.Total, a.HeadsKV, size)},
		heads: a.HeadsKV, past: a.Past, total: a.Total, size: size}
	if a.Past > 0 {
		k.cache.old = attentionHeads[T]{executor.Of[T](c.In(past)), SeparateHeads(a.Past, a.HeadsKV, size)}
	}
	c.Parallel(a.Batch*a.HeadsKV, 1+1<<13/max(1, a.Total*size), &k.cache)
	return k.cache.all
}

// masks reads the mask and the lengths.
func (k *attentionKernel[T]) masks(c *executor.Ctx) error {
	a := &k.core
	a.mask, a.lengths = attentionMask[T]{}, nil
	if t := c.In(3); t != nil {
		if !a.mask.Set(t.Shape, &a.AttentionSizes, k.p.Version >= 24) {
			return c.Errorf("the mask, input 3, has shape %v, wanted one that broadcasts to [%d %d %d %d]",
				t.Shape, a.Batch, a.HeadsQ, a.SeqQ, a.Total)
		}
		if t.DType == graph.Bool {
			a.mask.admit = executor.Of[uint8](t)
		} else {
			a.mask.add = executor.Of[T](t)
		}
	}
	if t := c.In(6); t != nil {
		if t.Rank() != 1 || t.Shape[0] != a.Batch {
			return c.Errorf("the keys' lengths, input 6, have shape %v, wanted [%d]", t.Shape, a.Batch)
		}
		a.lengths = executor.Of[int64](t)
		for b, n := range a.lengths {
			if n < 0 || n > int64(a.Total) {
				return c.Errorf("input 6 says that batch entry %d has %d keys; there are %d", b, n, a.Total)
			}
		}
	}
	return nil
}
