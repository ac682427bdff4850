package cuda

import (
	"math"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
)

// attentionKernel is https://onnx.ai/onnx/operators/onnx__Attention.html: inputs Q, K, V, mask,
// past key, past value, lengths of keys; outputs Y, present key, present value, scores.
type attentionKernel struct {
	attentionCore
	p      *executor.Prep
	heads  [2]int
	shapes [][]int
}

// softmaxDouble is float64's number in the attribute softmax_precision.
const softmaxDouble = 11

// newAttention makes the kernel of Attention.
func newAttention(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if p.Node.Int("softmax_precision", 0) == softmaxDouble {
		return nil, p.Unsupported("no CUDA kernel has a softmax in float64 (softmax_precision)")
	}
	if err := cpu.RefuseWindows(p); err != nil {
		return nil, err
	}
	core, err := newAttentionCore(d, p)
	k := &attentionKernel{attentionCore: core, p: p}
	k.heads = [2]int{int(p.Node.Int("q_num_heads", 0)), int(p.Node.Int("kv_num_heads", 0))}
	k.causal = p.Node.Int("is_causal", 0) != 0
	k.softcap = p.Node.Float("softcap", 0)
	k.stage = int(p.Node.Int("qk_matmul_output_mode", 0))
	return k, err
}

// Workspace holds presents that are not wanted, the lengths, and the scores of the current part.
func (k *attentionKernel) Workspace(in, _ [][]int) int {
	var s cpu.AttentionSizes
	if len(in) < 3 || cpu.ReadAttention(&s, in, k.heads) != nil {
		return 0
	}
	n := k.space(&s) + presentSpace(&s, k.size, s.Size) + presentSpace(&s, k.size, s.SizeV)
	if len(in) > 6 && in[6] != nil {
		n += executor.RoundUp(8 * s.Batch)
	}
	return n
}

// Run computes Y.
func (k *attentionKernel) Run(c *executor.Ctx) error {
	k.shapes = k.shapes[:0]
	for i := range max(c.Inputs(), 3) {
		k.shapes = append(k.shapes, c.Shape(i))
	}
	if err := cpu.ReadAttention(&k.AttentionSizes, k.shapes, k.heads); err != nil {
		return err
	}
	if err := k.masks(c); err != nil {
		return err
	}
	k.scale = k.p.Node.Float("scale", float32(1/math.Sqrt(float64(k.Size))))
	k.begin(c)
	if err := k.operands(c); err != nil {
		return err
	}
	k.show = dataOf(c.Out(3, k.Batch, k.HeadsQ, k.SeqQ, k.Total))
	return k.compute(c)
}

// operands finds the heads of queries, keys, values and Y. Keys and values that follow a cache
// are put behind it.
func (k *attentionKernel) operands(c *executor.Ctx) (err error) {
	fresh, layout := k.Total-k.Past, cpu.SeparateHeads
	if c.In(0).Rank() == 3 {
		layout = cpu.PackedHeads
		k.y.data = dataOf(c.Out(0, k.Batch, k.SeqQ, k.HeadsQ*k.SizeV))
	} else {
		k.y.data = dataOf(c.Out(0, k.Batch, k.HeadsQ, k.SeqQ, k.SizeV))
	}
	k.y.HeadLayout = layout(k.SeqQ, k.HeadsQ, k.SizeV)
	k.q = headRows{c.In(0).Data, layout(k.SeqQ, k.HeadsQ, k.Size)}
	key, v := headRows{c.In(1).Data, layout(fresh, k.HeadsKV, k.Size)},
		headRows{c.In(2).Data, layout(fresh, k.HeadsKV, k.SizeV)}
	if k.k, err = k.present(c, 1, 4, key, k.Size); err != nil {
		return err
	}
	k.v, err = k.present(c, 2, 5, v, k.SizeV)
	return err
}

// masks reads the mask, and the lengths, which are looked at on the host and sent to the device.
func (k *attentionKernel) masks(c *executor.Ctx) error {
	k.maskData, k.lengths = nil, nil
	if t := c.In(3); t != nil {
		if !k.mask.Set(t.Shape, &k.AttentionSizes, k.p.Version >= 24) {
			return c.Errorf("the mask, input 3, has shape %v, wanted one that broadcasts to [%d %d %d %d]",
				t.Shape, k.Batch, k.HeadsQ, k.SeqQ, k.Total)
		}
		k.maskData, k.admits = t.Data, t.DType == graph.Bool
	}
	t := c.In(6)
	if t == nil {
		return nil
	}
	if t.Rank() != 1 || t.Shape[0] != k.Batch {
		return c.Errorf("the keys' lengths, input 6, have shape %v, wanted [%d]", t.Shape, k.Batch)
	}
	for b, n := range executor.Of[int64](t) {
		if n < 0 || n > int64(k.Total) {
			return c.Errorf("input 6 says that batch entry %d has %d keys; there are %d", b, n, k.Total)
		}
	}
	var err error
	k.lengths, err = k.d.send(c, t.Data)
	return err
}
