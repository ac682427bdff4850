package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph/op"
)

// viewRows are the operators whose output is a view of their input.
var viewRows = []Row{
	{Kind: op.Identity, New: newView((*viewKernel).same), Packed: inBits},
	{Kind: op.Flatten, New: newView((*viewKernel).flatten), Packed: inBits},
	{Kind: op.Reshape, New: newView((*viewKernel).reshape), Packed: inBits},
	{Kind: op.Squeeze, New: newView((*viewKernel).squeeze), Packed: inBits},
	{Kind: op.Unsqueeze, New: newView((*viewKernel).unsqueeze), Packed: inBits},
}

// viewKernel computes the shape of a view.
type viewKernel struct {
	p     *executor.Prep
	dims  func(*viewKernel, *executor.Ctx, *executor.Tensor) error // sets shape
	shape []int
	axes  []int
	named []bool
}

func newView(
	dims func(*viewKernel, *executor.Ctx, *executor.Tensor) error,
) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) { return &viewKernel{p: p, dims: dims}, nil }
}

// Run makes output 0 a view of input 0.
func (k *viewKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x == nil {
		return c.Errorf("input 0 is left out")
	}
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

// reshape takes the shape that input 1 lists, before version 5 the attribute shape. A 0 keeps the
// input's dim unless allowzero is set, and one -1 stands for the remaining elements.
// https://onnx.ai/onnx/operators/onnx__Reshape.html
func (k *viewKernel) reshape(c *executor.Ctx, x *executor.Tensor) error {
	var err error
	if k.p.Version < 5 {
		k.shape = operand.List(k.shape, k.p.Node.IntList("shape", nil))
	} else if k.shape, err = operand.Ints(c, 1, k.shape); err != nil {
		return err
	}
	free, rest := -1, 1
	for i, d := range k.shape {
		switch {
		case d == -1 && free >= 0:
			return c.Errorf("the wanted shape %v has more than one -1", k.shape)
		case d == -1:
			free = i
			continue
		case d < -1:
			return c.Errorf("the wanted shape %v has the dim %d", k.shape, d)
		case d == 0 && k.p.Node.Int("allowzero", 0) == 0:
			if i >= x.Rank() {
				return c.Errorf("the wanted shape %v keeps dim %d of input 0, which has shape %v", k.shape, i, x.Shape)
			}
			d = x.Shape[i]
			k.shape[i] = d
		}
		if rest >= 0 {
			rest = operand.Times(rest, d)
		}
	}
	n := x.Len()
	if free >= 0 && rest > 0 && n%rest == 0 {
		k.shape[free] = n / rest
		return nil
	}
	if free >= 0 || rest != n {
		return c.Errorf("the wanted shape %v does not hold the %d elements of input 0, which has shape %v",
			k.shape, n, x.Shape)
	}
	return nil
}

// listAxes reads axes: an attribute before version 13, input 1 since.
func (k *viewKernel) listAxes(c *executor.Ctx) (given bool, err error) {
	k.axes = k.axes[:0]
	if k.p.Version < 13 {
		k.axes = operand.List(k.axes, k.p.Node.IntList("axes", nil))
		return k.p.Node.Attr("axes") != nil, nil
	}
	if c.In(1) == nil {
		return false, nil
	}
	k.axes, err = operand.Ints(c, 1, k.axes)
	return true, err
}

// squeeze removes axes of length 1: the named ones, or all.
// https://onnx.ai/onnx/operators/onnx__Squeeze.html
func (k *viewKernel) squeeze(c *executor.Ctx, x *executor.Tensor) error {
	given, err := k.listAxes(c)
	if err != nil {
		return err
	}
	if k.named, err = operand.Named(c, k.axes, x.Rank(), k.named); err != nil {
		return err
	}
	for i, d := range x.Shape {
		if given && k.named[i] && d != 1 {
			return c.Errorf("axis %d of input 0, which has shape %v, cannot be squeezed: its length is not 1",
				i, x.Shape)
		}
		if given && !k.named[i] || d != 1 {
			k.shape = append(k.shape, d)
		}
	}
	return nil
}

// unsqueeze inserts axes of length 1, which count in the result.
// https://onnx.ai/onnx/operators/onnx__Unsqueeze.html
func (k *viewKernel) unsqueeze(c *executor.Ctx, x *executor.Tensor) error {
	given, err := k.listAxes(c)
	if err != nil {
		return err
	}
	if !given {
		return c.Errorf("lacks the axes to insert")
	}
	rank := x.Rank() + len(k.axes)
	if k.named, err = operand.Named(c, k.axes, rank, k.named); err != nil {
		return err
	}
	next := 0
	for i := range rank {
		if k.named[i] {
			k.shape = append(k.shape, 1)
			continue
		}
		k.shape = append(k.shape, x.Shape[next])
		next++
	}
	return nil
}

// product multiplies dims.
func product(dims []int) int { return operand.Product(dims) }
