package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// splitKernel cuts an axis into parts. The sizes are an attribute in versions 2 and 11 and
// input 1 in the others; where there are none, parts are equal, but that since
// version 18 the last one may be smaller.
// https://onnx.ai/onnx/operators/onnx__Split.html
//
// SplitTraining has its sizes always as input 1.
type splitKernel struct {
	mover
	bytes   int
	axis    int64
	attr    []int // sizes as attribute; nil: none
	input   bool  // sizes may be input 1
	uneven  bool  // the last equal part may be smaller
	sizes   []int
	outputs int
	shape   []int
}

func newSplit(p *executor.Prep) (executor.Kernel, error) {
	k, err := makeSplit(p)
	if err != nil {
		return nil, err
	}
	k.input = p.Version == 1 || p.Version >= 13
	k.uneven = p.Version >= 18
	if p.Version < 13 && p.Node.Attr("split") != nil {
		k.attr = moveList([]int{}, p.Node.IntList("split", nil))
	}
	if n := p.Node.Int("num_outputs", int64(k.outputs)); k.uneven && n != int64(k.outputs) {
		return nil, p.Errorf("attribute num_outputs is %d and the node has %d outputs", n, k.outputs)
	}
	return k, nil
}

func newSplitTraining(p *executor.Prep) (executor.Kernel, error) {
	k, err := makeSplit(p)
	if err != nil {
		return nil, err
	}
	if err := moveNeeds(p, 1); err != nil {
		return nil, err
	}
	k.input = true
	return k, nil
}

func makeSplit(p *executor.Prep) (*splitKernel, error) {
	if err := moveNeeds(p, 0); err != nil {
		return nil, err
	}
	size, err := moveBytes(p, p.DType(0))
	if err != nil {
		return nil, err
	}
	for i, d := range p.Out {
		if d != graph.Undefined && d != p.DType(0) {
			return nil, p.Errorf("output %d has type %v, wanted %v", i, d, p.DType(0))
		}
	}
	return &splitKernel{bytes: size, axis: p.Node.Int("axis", 0), outputs: len(p.Out)}, nil
}

// Run copies the parts that are wanted.
func (k *splitKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	axis, err := moveAxis(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	if err := k.parts(c, x.Shape[axis]); err != nil {
		return err
	}
	outer, inner := product(x.Shape[:axis]), product(x.Shape[axis+1:])
	k.shape = append(k.shape[:0], x.Shape...)
	at := 0
	for i, n := range k.sizes {
		k.shape[axis] = n
		if y := c.Out(i, k.shape...); y != nil {
			k.begin(k.bytes)
			k.mover.axis(outer, n*inner, x.Shape[axis]*inner)
			k.mover.axis(n*inner, 1, 1)
			if err := k.run(c, y.Data, 0, x.Data, at); err != nil {
				return err
			}
		}
		at += n * inner
	}
	return nil
}

// parts sets sizes for an axis of length d.
func (k *splitKernel) parts(c *executor.Ctx, d int) error {
	var err error
	k.sizes = k.sizes[:0]
	switch {
	case k.input && c.In(1) != nil:
		if k.sizes, err = moveInts(c, 1, k.sizes); err != nil {
			return err
		}
	case k.attr != nil:
		k.sizes = append(k.sizes, k.attr...)
	default:
		return k.equal(c, d)
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

// equal cuts into equal parts.
func (k *splitKernel) equal(c *executor.Ctx, d int) error {
	n := k.outputs
	part := (d + n - 1) / n
	if !k.uneven && part*n != d {
		return c.Errorf("an axis of length %d cannot be cut into %d equal parts", d, n)
	}
	for range n {
		part = min(part, d)
		k.sizes = append(k.sizes, part)
		d -= part
	}
	return nil
}
