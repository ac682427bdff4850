package cuda

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// permute copies with permuted axes.
type permute struct {
	boxCopy
	perm        []int
	given       bool
	shape, step []int
}

// newTranspose makes the kernel of Transpose.
func newTranspose(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
	if err != nil {
		return nil, err
	}
	k := &permute{boxCopy: b, given: p.Node.Attr("perm") != nil}
	k.perm = attrInts(nil, p.Node.IntList("perm", nil))
	for i, axis := range k.perm {
		if axis < 0 {
			k.perm[i] = axis + len(k.perm)
		}
	}
	return k, nil
}

// Run permutes the axes of input 0.
func (k *permute) Run(c *executor.Ctx) error {
	x := c.In(0)
	rank := x.Rank()
	if !k.given {
		k.perm = k.perm[:0]
		for i := range rank {
			k.perm = append(k.perm, rank-1-i)
		}
	}
	if len(k.perm) != rank {
		return c.Errorf("attribute perm is %v and input 0 has shape %v", k.perm, x.Shape)
	}
	k.shape = k.shape[:0]
	for _, axis := range k.perm {
		k.shape = append(k.shape, x.Shape[axis])
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.step = rowMajor(k.step, x.Shape)
	k.begin()
	to := y.Len()
	for i, axis := range k.perm {
		to /= max(k.shape[i], 1)
		k.add(k.shape[i], to, k.step[axis])
	}
	return k.copyBox(c, y.Data, 0, x.Data, 0)
}

// joiner puts inputs together along an axis. Of ConcatTraining, output 1 lists how long they are along it.
type joiner struct {
	boxCopy
	axis    int64
	shape   []int
	lengths []int64 // stays valid while it is copied
}

// newConcat makes the kernel of Concat and ConcatTraining.
func newConcat(axis int64) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
		if err != nil {
			return nil, err
		}
		if p.Wants(1) && p.Out[1] != graph.Int64 {
			return nil, p.Unsupported("no CUDA kernel lists lengths as %v", p.Out[1])
		}
		return &joiner{boxCopy: b, axis: p.Node.Int("axis", axis)}, nil
	}
}

// Run copies each input into its place.
func (k *joiner) Run(c *executor.Ctx) error {
	first := c.In(0)
	axis, err := axisOf(c, k.axis, first.Rank())
	if err != nil {
		return err
	}
	k.shape = append(k.shape[:0], first.Shape...)
	for i := 1; i < c.Inputs(); i++ {
		x := c.In(i)
		if x.Rank() != len(k.shape) {
			return c.Errorf("input %d has shape %v, wanted rank %d as input 0", i, x.Shape, len(k.shape))
		}
		if !joined(x.Shape[:axis], k.shape[:axis], nil) || !joined(x.Shape[axis+1:], k.shape[axis+1:], nil) {
			return c.Errorf("input %d has shape %v and input 0 has shape %v; they may differ in axis %d alone", i, x.Shape, first.Shape, axis)
		}
		k.shape[axis] += x.Shape[axis]
	}
	if err := k.list(c, axis); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	outer, inner, at := lengths(k.shape[:axis]), lengths(k.shape[axis+1:]), 0
	for i := range c.Inputs() {
		x := c.In(i)
		n := x.Shape[axis] * inner
		k.begin()
		k.add(outer, k.shape[axis]*inner, n)
		k.add(n, 1, 1)
		if err := k.copyBox(c, y.Data, at, x.Data, 0); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// list sets output 1 where it is wanted.
func (k *joiner) list(c *executor.Ctx, axis int) error {
	if !c.Wants(1) {
		return nil
	}
	k.lengths = k.lengths[:0]
	for i := range c.Inputs() {
		k.lengths = append(k.lengths, int64(c.In(i).Shape[axis]))
	}
	return k.d.Memory().CopyIn(c.Out(1, c.Inputs()).Data, executor.Memory(k.lengths))
}

// splitter cuts an axis into parts: of the sizes that an attribute or input 1 lists, or equal ones.
type splitter struct {
	boxCopy
	axis          int64
	attr          []int // sizes as attribute; nil: none
	input, uneven bool  // sizes may be input 1; the last equal part may be smaller
	sizes, shape  []int
	outputs       int
}

// newSplit makes the kernel of Split and SplitTraining, whose sizes are always input 1.
func newSplit(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
	if err != nil {
		return nil, err
	}
	training := p.Node.Kind == op.SplitTraining
	k := &splitter{boxCopy: b, axis: p.Node.Int("axis", 0), outputs: len(p.Out)}
	k.input = training || p.Version == 1 || p.Version >= 13
	k.uneven = !training && p.Version >= 18
	if !training && p.Version < 13 && p.Node.Attr("split") != nil {
		k.attr = attrInts([]int{}, p.Node.IntList("split", nil))
	}
	return k, nil
}

// Run copies the parts that are wanted.
func (k *splitter) Run(c *executor.Ctx) error {
	x := c.In(0)
	axis, err := axisOf(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	if err := k.parts(c, x.Shape[axis]); err != nil {
		return err
	}
	outer, inner, at := lengths(x.Shape[:axis]), lengths(x.Shape[axis+1:]), 0
	k.shape = append(k.shape[:0], x.Shape...)
	for i, n := range k.sizes {
		k.shape[axis] = n
		if y := c.Out(i, k.shape...); y != nil {
			k.begin()
			k.add(outer, n*inner, x.Shape[axis]*inner)
			k.add(n*inner, 1, 1)
			if err := k.copyBox(c, y.Data, 0, x.Data, at); err != nil {
				return err
			}
		}
		at += n * inner
	}
	return nil
}

// parts sets sizes for an axis of length d.
func (k *splitter) parts(c *executor.Ctx, d int) error {
	var err error
	k.sizes = k.sizes[:0]
	switch {
	case k.input && c.In(1) != nil:
		if k.sizes, err = hostInts(c, 1, k.sizes); err != nil {
			return err
		}
	case k.attr != nil:
		k.sizes = append(k.sizes, k.attr...)
	default:
		part := (d + k.outputs - 1) / k.outputs
		if !k.uneven && part*k.outputs != d {
			return c.Errorf("an axis of length %d cannot be cut into %d equal parts", d, k.outputs)
		}
		for left := d; len(k.sizes) < k.outputs; left -= part {
			part = min(part, left)
			k.sizes = append(k.sizes, part)
		}
		return nil
	}
	if len(k.sizes) != k.outputs {
		return c.Errorf("has %d sizes and %d outputs", len(k.sizes), k.outputs)
	}
	left := d
	for _, n := range k.sizes {
		if n < 0 || n > left {
			return c.Errorf("sizes %v cut an axis of length %d", k.sizes, d)
		}
		left -= n
	}
	if left != 0 {
		return c.Errorf("sizes %v add up to %d and the axis has length %d", k.sizes, d-left, d)
	}
	return nil
}
