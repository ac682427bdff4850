package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// concatKernel puts its inputs together along an axis.
// https://onnx.ai/onnx/operators/onnx__Concat.html
//
// ConcatTraining is the same, and its output 1 lists how long each input is along the axis.
type concatKernel struct {
	mover
	bytes int
	axis  int64
	shape []int
}

func newConcat(p *executor.Prep) (executor.Kernel, error) {
	if p.Version >= 4 && p.Node.Attr("axis") == nil {
		return nil, p.Errorf("lacks the attribute axis")
	}
	return makeConcat(p, 1)
}

func newConcatTraining(p *executor.Prep) (executor.Kernel, error) { return makeConcat(p, 0) }

func makeConcat(p *executor.Prep, axis int64) (executor.Kernel, error) {
	slots := make([]int, max(len(p.In), 1))
	for i := range slots {
		slots[i] = i
	}
	size, err := moveSize(p, slots...)
	if err != nil {
		return nil, err
	}
	return &concatKernel{bytes: size, axis: p.Node.Int("axis", axis)}, nil
}

// Run copies each input into its place.
func (k *concatKernel) Run(c *executor.Ctx) error {
	first := c.In(0)
	axis, err := moveAxis(c, k.axis, first.Rank())
	if err != nil {
		return err
	}
	k.shape = append(k.shape[:0], first.Shape...)
	for i := 1; i < c.Inputs(); i++ {
		if err := k.add(c, i, axis); err != nil {
			return err
		}
	}
	k.lengths(c, axis)
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	outer, inner := product(k.shape[:axis]), product(k.shape[axis+1:])
	at := 0
	for i := range c.Inputs() {
		x := c.In(i)
		n := x.Shape[axis] * inner
		k.begin(k.bytes)
		k.mover.axis(outer, k.shape[axis]*inner, n)
		k.mover.axis(n, 1, 1)
		if err := k.run(c, y.Data, at, x.Data, 0); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// add checks an input and adds its length to the result's.
func (k *concatKernel) add(c *executor.Ctx, i, axis int) error {
	x := c.In(i)
	if x.Rank() != len(k.shape) {
		return c.Errorf("input %d has shape %v, wanted rank %d as input 0", i, x.Shape, len(k.shape))
	}
	for j, d := range x.Shape {
		if j != axis && d != k.shape[j] {
			return c.Errorf("input %d has shape %v and input 0 has shape %v; they may differ in axis %d alone", i, x.Shape, c.In(0).Shape, axis)
		}
	}
	k.shape[axis] += x.Shape[axis]
	return nil
}

// lengths lists the inputs' lengths in output 1 where it is wanted.
func (k *concatKernel) lengths(c *executor.Ctx, axis int) {
	if !c.Wants(1) {
		return
	}
	y := c.Out(1, c.Inputs())
	for i := range c.Inputs() {
		movePutInt(y, i, c.In(i).Shape[axis])
	}
}

// movePutInt sets element i of an integer output.
func movePutInt(y *executor.Tensor, i, v int) {
	switch y.DType {
	case graph.Int64:
		executor.Of[int64](y)[i] = int64(v)
	case graph.Int32:
		executor.Of[int32](y)[i] = int32(v)
	}
}
