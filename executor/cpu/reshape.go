package cpu

import (
	"memopt/executor"
	"memopt/graph/op"
)

// viewRows are the operators that only name their input's memory anew.
var viewRows = []Row{
	{Kind: op.Identity, New: newView((*viewKernel).same)},
	{Kind: op.Flatten, New: newView((*viewKernel).flatten)},
}

// viewKernel computes the shape of a view.
type viewKernel struct {
	p     *executor.Prep
	dims  func(*viewKernel, *executor.Ctx, *executor.Tensor) error // sets shape
	shape []int
}

func newView(dims func(*viewKernel, *executor.Ctx, *executor.Tensor) error) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) { return &viewKernel{p: p, dims: dims}, nil }
}

// Run names input 0 anew.
func (k *viewKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	k.shape = k.shape[:0]
	if err := k.dims(k, c, x); err != nil {
		return err
	}
	c.View(0, x, k.shape...)
	return nil
}

func (k *viewKernel) same(_ *executor.Ctx, x *executor.Tensor) error {
	k.shape = append(k.shape, x.Shape...)
	return nil
}

// flatten makes a matrix of all dims before axis and all from axis on.
// https://onnx.ai/onnx/operators/onnx__Flatten.html
func (k *viewKernel) flatten(c *executor.Ctx, x *executor.Tensor) error {
	axis := int(k.p.Node.Int("axis", 1))
	if axis < 0 {
		axis += x.Rank()
	}
	if axis < 0 || axis > x.Rank() {
		return c.Errorf("axis %d; input 0 has rank %d", k.p.Node.Int("axis", 1), x.Rank())
	}
	k.shape = append(k.shape, product(x.Shape[:axis]), product(x.Shape[axis:]))
	return nil
}

// product multiplies dims.
func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
