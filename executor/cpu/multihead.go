package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// multiHead is the common part of com.microsoft's Attention and MultiHeadAttention: as many key
// heads as query heads, a mask of paddings, a bias added to the scores and a cache.
//
//	https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
type multiHead[T blas.Float] struct {
	p      *executor.Prep
	core   attentionCore[T]
	cache  attentionCache[T]
	filter T
}

// init reads the attributes.
func (k *multiHead[T]) init(p *executor.Prep) error {
	blas.Warm()
	k.p = p
	n := p.Node.Int("num_heads", 0)
	if n < 1 || n > 1<<20 {
		return p.Errorf("attribute num_heads is %d, wanted at least 1", n)
	}
	k.core.HeadsQ, k.core.HeadsKV = int(n), int(n)
	k.core.causal = p.Node.Int("unidirectional", 0) != 0
	k.filter = T(p.Node.Float("mask_filter_value", -10000))
	return nil
}

// setScale reads the scale; 0 means the usual one.
func (k *multiHead[T]) setScale() {
	if k.core.scale = T(k.p.Node.Float("scale", 0)); k.core.scale == 0 {
		k.core.scale = T(1 / math.Sqrt(float64(k.core.Size)))
	}
}

// setPadding reads a mask of paddings.
func (k *multiHead[T]) setPadding(t *executor.Tensor, withStarts bool) error {
	a := &k.core
	a.padding = attentionPadding[T]{value: k.filter}
	if t == nil {
		return nil
	}
	var form paddingForm
	if err := form.Read(t.Shape, &a.AttentionSizes, withStarts); err != nil {
		return err
	}
	switch v := executor.Of[int32](t); {
	case form.Mask:
		a.padding.mask, a.padding.batch, a.padding.query = v, form.Batch, form.Query
	case form.Starts:
		a.padding.ends, a.padding.starts = v[:a.Batch], v[a.Batch:]
	default:
		a.padding.ends = v
	}
	return nil
}

// setBias reads the bias of the scores.
func (k *multiHead[T]) setBias(t *executor.Tensor) error {
	k.core.mask = attentionMask[T]{}
	if t == nil {
		return nil
	}
	if err := k.core.mask.SetBias(t.Shape, &k.core.AttentionSizes); err != nil {
		return err
	}
	k.core.mask.add = executor.Of[T](t)
	return nil
}

// behind writes the elements of a cache, old, and then the keys or values in fresh into all.
func (k *multiHead[T]) behind(c *executor.Ctx, old, all []T, fresh attentionHeads[T], size int) attentionHeads[T] {
	a := &k.core
	k.cache = attentionCache[T]{new: fresh, all: attentionHeads[T]{all, SeparateHeads(a.Total, a.HeadsKV, size)},
		heads: a.HeadsKV, past: a.Past, total: a.Total, size: size}
	k.cache.old = attentionHeads[T]{old, SeparateHeads(a.Past, a.HeadsKV, size)}
	c.Parallel(a.Batch*a.HeadsKV, 1+1<<13/max(1, a.Total*size), &k.cache)
	return k.cache.all
}

// multiHeadKernel is com.microsoft's MultiHeadAttention. The query is [batch, seq, heads*size], or
// also holds keys and values: [batch, seq, heads, 3, size]. The key is [batch, seq, heads*size],
// also holds the values: [batch, seq, heads, 2, size], or is [batch, heads, seq, size]. A bias of
// queries, keys and values is added to those that do not have the last form.
type multiHeadKernel[T blas.Float] struct {
	multiHead[T]
	freshSeq int // keys that are not from the cache
	biased   multiHeadBias[T]
}

func newMultiHeadAttention(p *executor.Prep) (executor.Kernel, error) {
	if err := multiHeadTypes(p, 4, 8, 9); err != nil {
		return nil, err
	}
	switch {
	case p.Has(8) || p.Has(9):
		return nil, p.Unsupported("no kernel for a cache that past and present share")
	case p.Wants(3):
		return nil, p.Unsupported("no kernel for the output of scores")
	case p.Has(6) != p.Has(7):
		return nil, p.Errorf("has only one of past key (input 6) and past value (input 7), wanted both or none")
	case p.Has(1) != p.Has(2) && p.Has(2):
		return nil, p.Errorf("has a value (input 2) and no key (input 1)")
	}
	switch p.DType(0) {
	case graph.Float32:
		k := new(multiHeadKernel[float32])
		return k, k.init(p)
	case graph.Float64:
		k := new(multiHeadKernel[float64])
		return k, k.init(p)
	}
	return nil, unsupportedTypes(p)
}

// multiHeadTypes checks that the inputs have one type, except for some in int32.
func multiHeadTypes(p *executor.Prep, ints ...int) error {
	for i, d := range p.In {
		want := p.DType(0)
		for _, j := range ints {
			if i == j {
				want = graph.Int32
			}
		}
		if d != graph.Undefined && d != want {
			return p.Errorf("input %d has type %v, wanted %v", i, d, want)
		}
	}
	return nil
}

// Workspace holds biased operands, the present keys and values that are not wanted as outputs, and
// the scores in progress.
func (k *multiHeadKernel[T]) Workspace(in, _ [][]int) int {
	shape := func(i int) []int {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	core := attentionCore[T]{AttentionSizes: k.core.AttentionSizes}
	s := &core.AttentionSizes
	fresh, err := readMultiHead(s, shape(0), shape(1), shape(2), shape(6), shape(7))
	if err != nil {
		return 0
	}
	var e [1]T
	bytes := len(executor.Memory(e[:]))
	rows := func(n int) int { return executor.RoundUp(bytes * s.Batch * s.HeadsQ * n) }
	n := executor.RoundUp(bytes * core.block(k.p.Threads))
	if shape(3) != nil {
		n += rows(s.SeqQ*s.Size) + rows(fresh*s.Size) + rows(fresh*s.SizeV)
	}
	if s.Past > 0 {
		n += rows(s.Total*s.Size) + rows(s.Total*s.SizeV)
	}
	return n
}

// Run computes the output.
func (k *multiHeadKernel[T]) Run(c *executor.Ctx) (err error) {
	a := &k.core
	if k.freshSeq, err = readMultiHead(&a.AttentionSizes, c.Shape(0), c.Shape(1), c.Shape(2), c.Shape(6),
		c.Shape(7)); err != nil {
		return err
	}
	if err := k.setPadding(c.In(4), false); err != nil {
		return err
	}
	if err := k.setBias(c.In(5)); err != nil {
		return err
	}
	k.setScale()
	k.views(c)
	if t := c.In(3); t != nil {
		if t.Len() != a.HeadsQ*(2*a.Size+a.SizeV) {
			return c.Errorf("the bias, input 3, has shape %v, wanted [%d]", t.Shape, a.HeadsQ*(2*a.Size+a.SizeV))
		}
		k.addBias(c, executor.Of[T](t))
	}
	a.k = k.present(c, 1, 6, a.k, a.Size)
	a.v = k.present(c, 2, 7, a.v, a.SizeV)
	a.y = attentionHeads[T]{executor.Of[T](c.Out(0, a.Batch, a.SeqQ, a.HeadsQ*a.SizeV)),
		PackedHeads(a.SeqQ, a.HeadsQ, a.SizeV)}
	a.compute(c)
	return nil
}

// views finds the heads of queries, keys and values.
func (k *multiHeadKernel[T]) views(c *executor.Ctx) {
	a, n, fresh := &k.core, k.core.HeadsQ, k.freshSeq
	q := executor.Of[T](c.In(0))
	if c.In(0).Rank() == 5 {
		for i, h := range [3]*attentionHeads[T]{&a.q, &a.k, &a.v} {
			*h = attentionHeads[T]{q, headsOfSeveral(fresh, n, 3, i, a.Size)}
		}
		return
	}
	a.q = attentionHeads[T]{q, PackedHeads(a.SeqQ, n, a.Size)}
	key := executor.Of[T](c.In(1))
	switch c.In(1).Rank() {
	case 5:
		a.k, a.v = attentionHeads[T]{key, headsOfSeveral(fresh, n, 2, 0, a.Size)},
			attentionHeads[T]{key, headsOfSeveral(fresh, n, 2, 1, a.Size)}
	case 4:
		a.k, a.v = attentionHeads[T]{key, SeparateHeads(fresh, n, a.Size)}, attentionHeads[T]{executor.Of[T](c.In(2)),
			SeparateHeads(fresh, n, a.SizeV)}
	default:
		a.k, a.v = attentionHeads[T]{key, PackedHeads(fresh, n, a.Size)}, attentionHeads[T]{executor.Of[T](c.In(2)),
			PackedHeads(fresh, n, a.SizeV)}
	}
}

// present returns the keys or values from the first of the cache to the last, and writes them to
// output out if it is wanted.
func (k *multiHeadKernel[T]) present(
	c *executor.Ctx, out, past int, fresh attentionHeads[T], size int,
) attentionHeads[T] {
	a := &k.core
	if a.Past == 0 && !c.Wants(out) {
		return fresh
	}
	var old, all []T
	if t := c.Out(out, a.Batch, a.HeadsKV, a.Total, size); t != nil {
		all = executor.Of[T](t)
	} else {
		all = executor.ScratchOf[T](c, a.Batch*a.HeadsKV*a.Total*size)
	}
	if a.Past > 0 {
		old = executor.Of[T](c.In(past))
	}
	return k.behind(c, old, all, fresh, size)
}

// addBias adds the bias to copies of queries, keys and values.
func (k *multiHeadKernel[T]) addBias(c *executor.Ctx, bias []T) {
	a := &k.core
	d := a.HeadsQ * a.Size
	a.q = k.withBias(c, a.q, a.SeqQ, a.Size, bias[:d])
	if t := c.In(1); t != nil && t.Rank() == 4 {
		return
	}
	a.k = k.withBias(c, a.k, k.freshSeq, a.Size, bias[d:2*d])
	a.v = k.withBias(c, a.v, k.freshSeq, a.SizeV, bias[2*d:])
}

func (k *multiHeadKernel[T]) withBias(c *executor.Ctx, x attentionHeads[T], seq, size int, bias []T) attentionHeads[T] {
	a := &k.core
	y := attentionHeads[T]{executor.ScratchOf[T](c, a.Batch*seq*a.HeadsQ*size), PackedHeads(seq, a.HeadsQ, size)}
	k.biased = multiHeadBias[T]{x: x, y: y, bias: bias, seq: seq, heads: a.HeadsQ, size: size}
	c.Parallel(a.Batch*seq, 1+1<<13/max(1, len(bias)), &k.biased)
	return y
}

// multiHeadBias adds a bias to rows of heads.
type multiHeadBias[T blas.Float] struct {
	x, y             attentionHeads[T]
	bias             []T
	seq, heads, size int
}

// Range adds it to rows lo..hi-1, counted over all batch entries.
func (k *multiHeadBias[T]) Range(lo, hi int) {
	for r := lo; r < hi; r++ {
		for h := range k.heads {
			y, bias := k.y.at(r/k.seq, h, r%k.seq)[:k.size], k.bias[h*k.size:][:k.size]
			for i, v := range k.x.at(r/k.seq, h, r%k.seq)[:k.size] {
				y[i] = v + bias[i]
			}
		}
	}
}
