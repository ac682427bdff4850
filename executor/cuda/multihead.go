package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
)

// multiHead is what com.microsoft's Attention and MultiHeadAttention have in common: as many key
// heads as query heads, a mask of paddings, a bias of the scores and a cache.
type multiHead struct {
	attentionCore
	p *executor.Prep
}

func newMultiHead(d *Device, p *executor.Prep) (multiHead, error) {
	core, err := newAttentionCore(d, p)
	k := multiHead{core, p}
	k.HeadsQ = int(p.Node.Int("num_heads", 0))
	k.HeadsKV = k.HeadsQ
	k.causal = p.Node.Int("unidirectional", 0) != 0
	k.filter = p.Node.Float("mask_filter_value", -10000)
	return k, err
}

// read reads the scale, the mask of paddings in an input, which may have starts, and the bias of
// the scores in another.
func (k *multiHead) read(c *executor.Ctx, padding, bias int, starts bool) error {
	k.setScale(k.p.Node.Float("scale", 0))
	k.paddingData, k.maskData = nil, nil
	if t := c.In(padding); t != nil {
		if err := k.padding.Read(t.Shape, &k.AttentionSizes, starts); err != nil {
			return err
		}
		k.paddingData = t.Data
	}
	if t := c.In(bias); t != nil {
		if err := k.mask.SetBias(t.Shape, &k.AttentionSizes); err != nil {
			return err
		}
		k.maskData = t.Data
	}
	return nil
}

// output computes output 0 of heads side by side.
func (k *multiHead) output(c *executor.Ctx) error {
	y := c.Out(0, k.Batch, k.SeqQ, k.HeadsQ*k.SizeV)
	k.y = headRows{dataOf(y), cpu.PackedHeads(k.SeqQ, k.HeadsQ, k.SizeV)}
	return k.compute(c)
}

// multiHeadKernel is com.microsoft's MultiHeadAttention: executor/cpu describes the layouts of
// queries, keys and values.
type multiHeadKernel struct {
	multiHead
	bias  *launch
	fresh int // keys that are not from the cache
}

// newMultiHeadAttention makes the kernel of MultiHeadAttention.
func newMultiHeadAttention(d *Device, p *executor.Prep) (executor.Kernel, error) {
	m, err := newMultiHead(d, p)
	if err != nil {
		return nil, err
	}
	k := &multiHeadKernel{multiHead: m}
	k.bias, err = d.launch("attention_"+suffix(m.t), "headsbias_"+suffix(m.t))
	return k, err
}

// Workspace holds biased operands, presents that are not wanted, and the scores of the current
// part.
func (k *multiHeadKernel) Workspace(in, _ [][]int) int {
	shape := func(i int) []int {
		if i < len(in) {
			return in[i]
		}
		return nil
	}
	s := k.AttentionSizes
	fresh, err := cpu.ReadMultiHead(&s, shape(0), shape(1), shape(2), shape(6), shape(7))
	if err != nil {
		return 0
	}
	n := k.space(&s) + presentSpace(&s, k.size, s.Size) + presentSpace(&s, k.size, s.SizeV)
	if shape(3) != nil {
		for _, row := range [3]int{s.SeqQ * s.Size, fresh * s.Size, fresh * s.SizeV} {
			n += executor.RoundUp(k.size * s.Batch * s.HeadsQ * row)
		}
	}
	return n
}

// Run computes the output.
func (k *multiHeadKernel) Run(c *executor.Ctx) (err error) {
	if k.fresh, err = cpu.ReadMultiHead(&k.AttentionSizes, c.Shape(0), c.Shape(1), c.Shape(2), c.Shape(6),
		c.Shape(7)); err != nil {
		return err
	}
	if err := k.read(c, 4, 5, false); err != nil {
		return err
	}
	k.begin(c)
	k.views(c)
	if t := c.In(3); t != nil {
		if want := k.HeadsQ * (2*k.Size + k.SizeV); t.Len() != want {
			return c.Errorf("the bias, input 3, has shape %v, wanted [%d]", t.Shape, want)
		}
		if err := k.addBias(c, t.Data); err != nil {
			return err
		}
	}
	if k.k, err = k.present(c, 1, 6, k.k, k.Size); err != nil {
		return err
	}
	if k.v, err = k.present(c, 2, 7, k.v, k.SizeV); err != nil {
		return err
	}
	return k.output(c)
}

// views finds the heads of queries, keys and values.
func (k *multiHeadKernel) views(c *executor.Ctx) {
	n, q, key, v := k.HeadsQ, c.In(0), c.In(1), c.In(2)
	if q.Rank() == 5 {
		for i, h := range [3]*headRows{&k.q, &k.k, &k.v} {
			*h = headRows{q.Data, cpu.HeadsOfSeveral(k.fresh, n, 3, i, k.Size)}
		}
		return
	}
	k.q = headRows{q.Data, cpu.PackedHeads(k.SeqQ, n, k.Size)}
	layout := cpu.PackedHeads
	switch key.Rank() {
	case 5:
		k.k = headRows{key.Data, cpu.HeadsOfSeveral(k.fresh, n, 2, 0, k.Size)}
		k.v = headRows{key.Data, cpu.HeadsOfSeveral(k.fresh, n, 2, 1, k.Size)}
		return
	case 4:
		layout = cpu.SeparateHeads
	}
	k.k, k.v = headRows{key.Data, layout(k.fresh, n, k.Size)}, headRows{v.Data, layout(k.fresh, n, k.SizeV)}
}

// addBias adds the bias to copies of queries, keys and values; not to keys and values whose heads
// have an axis of their own.
func (k *multiHeadKernel) addBias(c *executor.Ctx, bias []byte) (err error) {
	d := k.HeadsQ * k.Size * k.size
	if k.q, err = k.withBias(c, k.q, k.SeqQ, k.Size, bias[:d]); err != nil {
		return err
	}
	if t := c.In(1); t != nil && t.Rank() == 4 {
		return nil
	}
	if k.k, err = k.withBias(c, k.k, k.fresh, k.Size, bias[d:2*d]); err != nil {
		return err
	}
	k.v, err = k.withBias(c, k.v, k.fresh, k.SizeV, bias[2*d:])
	return err
}

func (k *multiHeadKernel) withBias(c *executor.Ctx, x headRows, seq, size int, bias []byte) (headRows, error) {
	n := k.Batch * seq * k.HeadsQ * size
	y := headRows{c.Scratch(k.size * n), cpu.PackedHeads(seq, k.HeadsQ, size)}
	a := k.bias.begin()
	a.In(x.data[min(k.size*x.First, len(x.data)):])
	a.In(bias)
	a.Out(y.data)
	a.Int(n)
	a.Int(x.Batch)
	a.Int(x.Head)
	a.Int(x.Row)
	a.Divider(max(size, 1))
	a.Divider(k.HeadsQ)
	a.Divider(max(seq, 1))
	return y, k.bias.line(n, 1)
}

// projectedAttention is com.microsoft's Attention: the input [batch, seq, in] times the weights
// [in, Q+K+V], plus a bias, makes queries, keys and values. Past and present are [2, batch, heads,
// length, size].
type projectedAttention struct {
	multiHead
	stretch   *broadcastKernel
	hidden    int // of queries, and of keys
	bias, all executor.Tensor
}

// newAttentionMS makes the kernel of com.microsoft's Attention.
func newAttentionMS(d *Device, p *executor.Prep) (executor.Kernel, error) {
	m, err := newMultiHead(d, p)
	if err != nil {
		return nil, err
	}
	k := &projectedAttention{multiHead: m}
	k.stretch, err = newExpandOf(d, m.size)
	return k, err
}

// Workspace holds queries, keys and values, a present that is not wanted, and the scores of the
// current part.
func (k *projectedAttention) Workspace(in, _ [][]int) int {
	var past []int
	if len(in) > 4 {
		past = in[4]
	}
	s := k.AttentionSizes
	if _, err := cpu.ReadProjected(&s, k.p, in[0], in[1], past); err != nil {
		return 0
	}
	return k.space(&s) + presentSpace(&s, k.size, 2*s.Size) + executor.RoundUp(k.size*s.Batch*s.SeqQ*in[1][1])
}

// Run computes the output.
func (k *projectedAttention) Run(c *executor.Ctx) (err error) {
	if k.hidden, err = cpu.ReadProjected(&k.AttentionSizes, k.p, c.In(0).Shape, c.In(1).Shape, c.Shape(4)); err != nil {
		return err
	}
	if c.Wants(1) && k.Size != k.SizeV {
		return c.Errorf("present is wanted, and heads have %d elements in keys and %d in values, wanted the same",
			k.Size, k.SizeV)
	}
	if err := k.read(c, 3, 5, true); err != nil {
		return err
	}
	k.begin(c)
	if err := k.projected(c); err != nil {
		return err
	}
	if k.Past > 0 || c.Wants(1) {
		if err := k.presents(c); err != nil {
			return err
		}
	}
	return k.output(c)
}

// projected computes queries, keys and values, side by side in rows.
func (k *projectedAttention) projected(c *executor.Ctx) error {
	g, x, w, bias := &k.product.gemm, c.In(0), c.In(1), c.In(2)
	rows, cols := k.Batch*k.SeqQ, w.Shape[1]
	all := c.Scratch(k.size * rows * cols)
	for i, h := range [3]*headRows{&k.q, &k.k, &k.v} {
		*h = headRows{all, cpu.ProjectedHeads(&k.AttentionSizes, k.hidden, i)}
	}
	if bias != nil && bias.Len() != cols {
		return c.Errorf("the bias, input 2, has shape %v, wanted [%d]", bias.Shape, cols)
	}
	g.M, g.N, g.K, g.TransB, g.Alpha, g.Beta = rows, cols, x.Shape[2], false, 1, 0
	g.LDA, g.LDB, g.LDC = max(g.K, 1), max(cols, 1), max(cols, 1)
	switch {
	case len(all) == 0:
		return nil
	case bias != nil:
		g.Beta = 1
		k.bias = executor.Tensor{DType: x.DType, Shape: append(k.bias.Shape[:0], cols), Data: bias.Data}
		k.all = executor.Tensor{DType: x.DType, Shape: append(k.all.Shape[:0], rows, cols), Data: all}
		if err := k.stretch.expand(c, &k.bias, &k.all); err != nil {
			return err
		}
	case g.K == 0:
		return k.d.Memory().Fill(all, 0)
	}
	if g.K == 0 {
		return nil
	}
	k.product.spread(nil)
	err := k.product.run(x.Data, w.Data, all)
	g.Beta = 0
	return err
}

// presents puts keys and values behind those of the cache.
func (k *projectedAttention) presents(c *executor.Ctx) (err error) {
	var all []byte
	if t := c.Out(1, 2, k.Batch, k.HeadsKV, k.Total, k.Size); t != nil {
		all = t.Data
	} else {
		all = c.Scratch(2 * k.size * k.Batch * k.HeadsKV * k.Total * k.Size)
	}
	old := dataOf(c.In(4))
	if k.k, err = k.behind(c, old[:len(old)/2], all[:len(all)/2], k.k, k.Size); err != nil {
		return err
	}
	k.v, err = k.behind(c, old[len(old)/2:], all[len(all)/2:], k.v, k.Size)
	return err
}
