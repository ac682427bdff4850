package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// attentionMSKernel is com.microsoft's Attention: the input [batch, seq, in] times the weights [in,
// Q+K+V], plus a bias, makes queries, keys and values. Past and present are [2, batch, heads,
// length, size].
type attentionMSKernel[T blas.Float] struct {
	multiHead[T]
	hidden  int // of queries, and of keys
	project gemmKernel[T]
}

func newAttentionMS(p *executor.Prep) (executor.Kernel, error) {
	if err := multiHeadTypes(p, 3, 6); err != nil {
		return nil, err
	}
	switch {
	case !p.Has(1):
		return nil, p.Errorf("has no weights (input 1)")
	case p.Node.Int("do_rotary", 0) != 0:
		return nil, p.Unsupported("no kernel for rotary embeddings (do_rotary)")
	case p.Node.Int("past_present_share_buffer", 0) != 0 || p.Has(6):
		return nil, p.Unsupported("no kernel for a cache that past and present share")
	}
	switch p.DType(0) {
	case graph.Float32:
		k := new(attentionMSKernel[float32])
		return k, k.init(p)
	case graph.Float64:
		k := new(attentionMSKernel[float64])
		return k, k.init(p)
	}
	return nil, unsupportedTypes(p)
}

// Workspace holds queries, keys and values, the present if it is not wanted as an output, and the
// scores in progress.
func (k *attentionMSKernel[T]) Workspace(in, _ [][]int) int {
	core := attentionCore[T]{AttentionSizes: k.core.AttentionSizes}
	s := &core.AttentionSizes
	var past []int
	if len(in) > 4 {
		past = in[4]
	}
	if _, err := readProjected(s, k.p, in[0], in[1], past); err != nil {
		return 0
	}
	var e [1]T
	bytes := len(executor.Memory(e[:]))
	n := executor.RoundUp(bytes*core.block(k.p.Threads)) + executor.RoundUp(bytes*s.Batch*s.SeqQ*in[1][1])
	if s.Past > 0 {
		n += executor.RoundUp(bytes * 2 * s.Batch * s.HeadsKV * s.Total * s.Size)
	}
	return n
}

// Run computes the output.
func (k *attentionMSKernel[T]) Run(c *executor.Ctx) (err error) {
	a := &k.core
	if k.hidden, err = readProjected(&a.AttentionSizes, k.p, c.In(0).Shape, c.In(1).Shape, c.Shape(4)); err != nil {
		return err
	}
	if c.Wants(1) && a.Size != a.SizeV {
		return c.Errorf("present is wanted, and heads have %d elements in keys and %d in values, wanted the same",
			a.Size, a.SizeV)
	}
	if err := k.setPadding(c.In(3), true); err != nil {
		return err
	}
	if err := k.setBias(c.In(5)); err != nil {
		return err
	}
	k.setScale()
	if err := k.projected(c); err != nil {
		return err
	}
	if a.Past > 0 || c.Wants(1) {
		k.present(c)
	}
	a.y = attentionHeads[T]{executor.Of[T](c.Out(0, a.Batch, a.SeqQ, a.HeadsQ*a.SizeV)),
		PackedHeads(a.SeqQ, a.HeadsQ, a.SizeV)}
	a.compute(c)
	return nil
}

// projected computes queries, keys and values, side by side in rows.
func (k *attentionMSKernel[T]) projected(c *executor.Ctx) error {
	a, g := &k.core, &k.project.product
	x, w := c.In(0), c.In(1)
	rows, cols := a.Batch*a.SeqQ, w.Shape[1]
	all := executor.ScratchOf[T](c, rows*cols)
	g.M, g.N, g.K, g.Alpha = rows, cols, x.Shape[2], 1
	g.A, g.B, g.C = executor.Of[T](x), executor.Of[T](w), all
	g.LDA, g.LDB, g.LDC = max(g.K, 1), max(cols, 1), max(cols, 1)
	g.Beta, k.project.c, k.project.col = 0, nil, 1
	if t := c.In(2); t != nil {
		if t.Len() != cols {
			return c.Errorf("the bias, input 2, has shape %v, wanted [%d]", t.Shape, cols)
		}
		g.Beta, k.project.c = 1, executor.Of[T](t)
	}
	tiles, grain := g.Plan()
	c.Parallel(tiles, grain, (*gemmTiles[T])(&k.project))
	for i, h := range [3]*attentionHeads[T]{&a.q, &a.k, &a.v} {
		*h = attentionHeads[T]{all, projectedHeads(&a.AttentionSizes, k.hidden, i)}
	}
	return nil
}

// present puts keys and values after those of the cache.
func (k *attentionMSKernel[T]) present(c *executor.Ctx) {
	a := &k.core
	var old, all []T
	if t := c.Out(1, 2, a.Batch, a.HeadsKV, a.Total, a.Size); t != nil {
		all = executor.Of[T](t)
	} else {
		all = executor.ScratchOf[T](c, 2*a.Batch*a.HeadsKV*a.Total*a.Size)
	}
	if a.Past > 0 {
		old = executor.Of[T](c.In(4))
	}
	half := len(all) / 2
	a.k = k.behind(c, old[:len(old)/2], all[:half], a.k, a.Size)
	a.v = k.behind(c, old[len(old)/2:], all[half:], a.v, a.Size)
}
