package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/operand"
	"memopt/graph"
)

// topK is TopK: kernels/topk.cu.
type topK struct {
	warps, blocks *launch
	attr          int64 // k, before version 10
	version       int
	axis          int64
	smallest      bool
	shape         []int
}

// Limits of kernels/topk.cu: how much of a line a warp holds, and how many chosen elements shared
// memory holds.
const (
	topKThreads = 256
	topKHeld    = 256
	topKRounds  = 32
	topKShared  = 1024
	topKBlocks  = 256 // at once, if they need workspace
)

// newTopK makes the kernel of TopK.
func newTopK(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(0)
	name := suffix(t)
	switch t {
	case graph.Int8:
		name = "i8"
	case graph.Float64, graph.Bool:
		name = ""
	}
	if name == "" {
		return nil, noTypes(p)
	}
	k := &topK{
		attr: p.Node.Int("k", -1), version: p.Version, axis: p.Node.Int("axis", -1),
		smallest: p.Node.Int("largest", 1) == 0,
	}
	var err error
	if k.warps, err = d.launch("topk", "topkwarp_"+name); err != nil {
		return nil, err
	}
	k.blocks, err = d.launch("topk", "topk_"+name)
	return k, err
}

// space returns k rounded up to a power of two, and the bytes that sorting so many elements per
// line takes.
func (k *topK) space(lines, chosen int) (padded, bytes int) {
	padded = 1
	for padded < chosen {
		padded *= 2
	}
	if padded <= topKShared {
		return padded, 0
	}
	return padded, 16 * padded * min(lines, topKBlocks)
}

// Workspace holds the chosen elements if they are many.
func (k *topK) Workspace(_, out [][]int) int {
	for _, s := range out {
		if axis, err := operand.DataAxis(nil, k.axis, len(s)); err == nil {
			_, n := k.space(elements(s)/max(s[axis], 1), s[axis])
			return executor.RoundUp(n)
		}
	}
	return 0
}

// Run selects.
func (k *topK) Run(c *executor.Ctx) error {
	x, want := c.In(0), k.attr
	axis, err := operand.DataAxis(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	if k.version >= 10 {
		if want, err = operand.Scalar(c, 1, "k"); err != nil {
			return err
		}
	}
	n := x.Shape[axis]
	if want < 0 || want > int64(n) {
		return c.Errorf("k is %d; axis %d of input 0, of shape %v, has %d elements", want, axis, x.Shape, n)
	}
	chosen := int(want)
	k.shape = append(k.shape[:0], x.Shape...)
	k.shape[axis] = chosen
	values, indices := dataOf(c.Out(0, k.shape...)), dataOf(c.Out(1, k.shape...))
	rows, inner := elements(x.Shape[:axis]), elements(x.Shape[axis+1:])
	lines := rows * inner
	if lines*chosen == 0 {
		return nil
	}
	small := n <= topKHeld && chosen <= topKRounds
	padded, space := k.space(lines, chosen)
	var work []byte
	l := k.warps
	if !small {
		l, work = k.blocks, c.Scratch(space)
	}
	l.begin().In(x.Data).Out(values).Out(indices).Out(work).Int(rows).Int(n).Int(inner).Int(chosen).
		Int(padded).Uint32(flag(k.smallest))
	switch {
	case small:
		return l.folding(lines, 1)
	case space > 0:
		return l.run(driver.Line(min(lines, topKBlocks), topKThreads))
	}
	return l.rows(lines, topKThreads, 0)
}
