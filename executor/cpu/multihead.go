package cpu

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// multiHead is what com.microsoft's Attention and MultiHeadAttention have in common: as many key heads
// as query heads, a mask of paddings, a bias of the scores and a cache.
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
	k.core.headsQ, k.core.headsKV = int(n), int(n)
	k.core.causal = p.Node.Int("unidirectional", 0) != 0
	k.filter = T(p.Node.Float("mask_filter_value", -10000))
	return nil
}

// setScale reads the scale; 0 means the usual one.
func (k *multiHead[T]) setScale() {
	if k.core.scale = T(k.p.Node.Float("scale", 0)); k.core.scale == 0 {
		k.core.scale = T(1 / math.Sqrt(float64(k.core.size)))
	}
}

// setPadding reads a mask of paddings: [batch, total], [batch, seqQ, total], [batch] lengths, or, where
// starts may be given, [2*batch] ends and starts.
func (k *multiHead[T]) setPadding(t *executor.Tensor, withStarts bool) error {
	a := &k.core
	a.padding = attentionPadding[T]{value: k.filter}
	if t == nil {
		return nil
	}
	s, v := t.Shape, executor.Of[int32](t)
	switch {
	case len(s) == 2 && s[0] == a.batch && s[1] == a.total:
		a.padding.mask, a.padding.batch = v, a.total
	case len(s) == 3 && s[0] == a.batch && s[1] == a.seqQ && s[2] == a.total:
		a.padding.mask, a.padding.batch, a.padding.query = v, a.seqQ*a.total, a.total
	case len(s) == 1 && s[0] == a.batch:
		a.padding.ends = v
	case len(s) == 1 && s[0] == 2*a.batch && withStarts:
		a.padding.ends, a.padding.starts = v[:a.batch], v[a.batch:]
	default:
		return fmt.Errorf("the mask has shape %v; there are %d batch entries, %d queries and %d keys", s, a.batch, a.seqQ, a.total)
	}
	return nil
}

// setBias reads what is added to the scores.
func (k *multiHead[T]) setBias(t *executor.Tensor) error {
	k.core.mask = attentionMask[T]{}
	if t == nil {
		return nil
	}
	if t.Rank() != 4 || !k.core.mask.set(t.Shape, &k.core.attentionSizes, false) || k.core.mask.cols != k.core.total || t.Shape[3] != k.core.total {
		return fmt.Errorf("the attention bias has shape %v, wanted one that broadcasts to [%d %d %d %d]",
			t.Shape, k.core.batch, k.core.headsQ, k.core.seqQ, k.core.total)
	}
	k.core.mask.add = executor.Of[T](t)
	return nil
}

// behind writes keys or values behind those of a cache, old, into all.
func (k *multiHead[T]) behind(c *executor.Ctx, old, all []T, fresh attentionHeads[T], size int) attentionHeads[T] {
	a := &k.core
	k.cache = attentionCache[T]{new: fresh, all: separateHeads(all, a.total, a.headsKV, size),
		heads: a.headsKV, past: a.past, total: a.total, size: size}
	k.cache.old = separateHeads(old, a.past, a.headsKV, size)
	c.Parallel(a.batch*a.headsKV, 1+1<<13/max(1, a.total*size), &k.cache)
	return k.cache.all
}

// multiHeadKernel is com.microsoft's MultiHeadAttention. The query is [batch, seq, heads*size], or holds keys and
// values, too: [batch, seq, heads, 3, size]. The key is [batch, seq, heads*size], holds the values, too:
// [batch, seq, heads, 2, size], or is [batch, heads, seq, size]. A bias of queries, keys and values is added to
// those that are not of the last form.
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

// multiHeadTypes checks that the inputs have one type, but for some in int32.
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

// sizes reads and checks the operands' shapes.
func (k *multiHeadKernel[T]) sizes(s *attentionSizes, q, key, v, past, pastV []int) (fresh int, err error) {
	n := s.headsQ
	bad := fmt.Errorf
	switch {
	case len(q) == 5 && key == nil && v == nil && q[2] == n && q[3] == 3:
		s.batch, s.seqQ, s.size, s.sizeV, fresh = q[0], q[1], q[4], q[4], q[1]
	case len(q) != 3 || q[2]%n != 0 || key == nil:
		return 0, bad("query and key have shapes %v and %v, wanted [batch length %d*size] and a key, or [batch length %d 3 size]", q, key, n, n)
	default:
		s.batch, s.seqQ, s.size, s.sizeV = q[0], q[1], q[2]/n, q[2]/n
		switch {
		case len(key) == 5 && v == nil && key[0] == q[0] && key[2] == n && key[3] == 2 && key[4] == s.size:
			fresh = key[1]
		case len(key) == 3 && len(v) == 3 && key[0] == q[0] && key[2] == q[2] && v[0] == q[0] && v[1] == key[1] && v[2]%n == 0:
			fresh, s.sizeV = key[1], v[2]/n
		case len(key) == 4 && len(v) == 4 && key[0] == q[0] && key[1] == n && key[3] == s.size && v[0] == q[0] && v[1] == n && v[2] == key[2]:
			fresh, s.sizeV = key[2], v[3]
		default:
			return 0, bad("query, key and value have shapes %v, %v and %v, which do not fit", q, key, v)
		}
	}
	s.past, s.total = 0, fresh
	if past != nil && pastV != nil {
		if len(past) != 4 || len(pastV) != 4 || past[0] != s.batch || pastV[0] != s.batch || past[1] != n || pastV[1] != n ||
			past[2] != pastV[2] || past[3] != s.size || pastV[3] != s.sizeV {
			return 0, bad("past key and value have shapes %v and %v, wanted [%d %d length %d] and [%d %d length %d]",
				past, pastV, s.batch, n, s.size, s.batch, n, s.sizeV)
		}
		s.past = past[2]
		s.total += s.past
	}
	return fresh, nil
}

// Workspace holds biased operands, presents that nobody wants, and the scores at work.
func (k *multiHeadKernel[T]) Workspace(in, _ [][]int) int {
	shape := func(i int) []int {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	core := attentionCore[T]{attentionSizes: k.core.attentionSizes}
	s := &core.attentionSizes
	fresh, err := k.sizes(s, shape(0), shape(1), shape(2), shape(6), shape(7))
	if err != nil {
		return 0
	}
	var e [1]T
	bytes := len(executor.Memory(e[:]))
	rows := func(n int) int { return executor.RoundUp(bytes * s.batch * s.headsQ * n) }
	n := executor.RoundUp(bytes * core.block(k.p.Threads))
	if shape(3) != nil {
		n += rows(s.seqQ*s.size) + rows(fresh*s.size) + rows(fresh*s.sizeV)
	}
	if s.past > 0 {
		n += rows(s.total*s.size) + rows(s.total*s.sizeV)
	}
	return n
}

// Run computes the output.
func (k *multiHeadKernel[T]) Run(c *executor.Ctx) (err error) {
	a := &k.core
	if k.freshSeq, err = k.sizes(&a.attentionSizes, shapeOf(c, 0), shapeOf(c, 1), shapeOf(c, 2), shapeOf(c, 6), shapeOf(c, 7)); err != nil {
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
		if t.Len() != a.headsQ*(2*a.size+a.sizeV) {
			return c.Errorf("the bias, input 3, has shape %v, wanted [%d]", t.Shape, a.headsQ*(2*a.size+a.sizeV))
		}
		k.addBias(c, executor.Of[T](t))
	}
	a.k = k.present(c, 1, 6, a.k, a.size)
	a.v = k.present(c, 2, 7, a.v, a.sizeV)
	a.y = packedHeads(executor.Of[T](c.Out(0, a.batch, a.seqQ, a.headsQ*a.sizeV)), a.seqQ, a.headsQ, a.sizeV)
	a.compute(c)
	return nil
}

// shapeOf returns the shape of an input, nil where it is left out.
func shapeOf(c *executor.Ctx, i int) []int {
	t := c.In(i)
	switch {
	case t == nil:
		return nil
	case t.Shape == nil:
		return []int{}
	}
	return t.Shape
}

// views finds the heads of queries, keys and values.
func (k *multiHeadKernel[T]) views(c *executor.Ctx) {
	a, n, fresh := &k.core, k.core.headsQ, k.freshSeq
	q := executor.Of[T](c.In(0))
	// several describes heads that hold things side by side, of which one begins at first.
	several := func(data []T, seq, things, first int) attentionHeads[T] {
		first = min(first, len(data))
		return attentionHeads[T]{data: data[first:], batch: seq * n * things * a.size, head: things * a.size, row: n * things * a.size}
	}
	if c.In(0).Rank() == 5 {
		a.q, a.k, a.v = several(q, fresh, 3, 0), several(q, fresh, 3, a.size), several(q, fresh, 3, 2*a.size)
		return
	}
	a.q = packedHeads(q, a.seqQ, n, a.size)
	key := executor.Of[T](c.In(1))
	switch c.In(1).Rank() {
	case 5:
		a.k, a.v = several(key, fresh, 2, 0), several(key, fresh, 2, a.size)
	case 4:
		a.k, a.v = separateHeads(key, fresh, n, a.size), separateHeads(executor.Of[T](c.In(2)), fresh, n, a.sizeV)
	default:
		a.k, a.v = packedHeads(key, fresh, n, a.size), packedHeads(executor.Of[T](c.In(2)), fresh, n, a.sizeV)
	}
}

// present returns the keys or values from the first of the cache to the last, and writes them to
// output out if it is wanted.
func (k *multiHeadKernel[T]) present(c *executor.Ctx, out, past int, fresh attentionHeads[T], size int) attentionHeads[T] {
	a := &k.core
	if a.past == 0 && !c.Wants(out) {
		return fresh
	}
	var old, all []T
	if t := c.Out(out, a.batch, a.headsKV, a.total, size); t != nil {
		all = executor.Of[T](t)
	} else {
		all = executor.ScratchOf[T](c, a.batch*a.headsKV*a.total*size)
	}
	if a.past > 0 {
		old = executor.Of[T](c.In(past))
	}
	return k.behind(c, old, all, fresh, size)
}

// addBias adds the bias to copies of queries, keys and values.
func (k *multiHeadKernel[T]) addBias(c *executor.Ctx, bias []T) {
	a := &k.core
	d := a.headsQ * a.size
	a.q = k.withBias(c, a.q, a.seqQ, a.size, bias[:d])
	if t := c.In(1); t != nil && t.Rank() == 4 {
		return
	}
	a.k = k.withBias(c, a.k, k.freshSeq, a.size, bias[d:2*d])
	a.v = k.withBias(c, a.v, k.freshSeq, a.sizeV, bias[2*d:])
}

func (k *multiHeadKernel[T]) withBias(c *executor.Ctx, x attentionHeads[T], seq, size int, bias []T) attentionHeads[T] {
	a := &k.core
	y := packedHeads(executor.ScratchOf[T](c, a.batch*seq*a.headsQ*size), seq, a.headsQ, size)
	k.biased = multiHeadBias[T]{x: x, y: y, bias: bias, seq: seq, heads: a.headsQ, size: size}
	c.Parallel(a.batch*seq, 1+1<<13/max(1, len(bias)), &k.biased)
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
