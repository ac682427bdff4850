package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// centerCropPad cuts or pads axes about their middle to the lengths that input 1 lists.
// https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
type centerCropPad struct {
	mover
	moveFiller
	given       bool
	attr, axes  []int
	named       []bool
	want, shape []int
	steps       []int
}

func newCenterCropPad(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &centerCropPad{mover: mover{size: size}, given: p.Node.Attr("axes") != nil, attr: operand.List(nil, p.Node.IntList("axes", nil))}, nil
}

// Run copies the part that is in both shapes. What is left of an odd difference goes to the end.
func (k *centerCropPad) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.lengths(c, x); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.steps = operand.RowMajor(k.steps, k.shape)
	k.Begin()
	step, from, to, padded := x.Len(), 0, 0, false
	for i, n := range k.shape {
		d := x.Shape[i]
		step /= max(d, 1)
		k.Add(min(n, d), k.steps[i], step)
		if d > n {
			from += (d - n) / 2 * step
		} else {
			to += (n - d) / 2 * k.steps[i]
			padded = padded || n > d
		}
	}
	if padded {
		k.zero(c, y.Data)
	}
	return k.Copy(c, y.Data, to, x.Data, from)
}

// lengths sets the shape of the result.
func (k *centerCropPad) lengths(c *executor.Ctx, x *executor.Tensor) error {
	var err error
	if k.want, err = operand.Shape(c, 1, k.want[:0]); err != nil {
		return err
	}
	k.axes = append(k.axes[:0], k.attr...)
	if !k.given {
		for i := range x.Rank() {
			k.axes = append(k.axes, i)
		}
	}
	if k.named, err = operand.Named(c, k.axes, x.Rank(), k.named); err != nil {
		return err
	}
	if len(k.want) != len(k.axes) {
		return c.Errorf("input 1 lists %d lengths for %d axes", len(k.want), len(k.axes))
	}
	k.shape = append(k.shape[:0], x.Shape...)
	for i, axis := range k.axes {
		if axis < 0 {
			axis += x.Rank()
		}
		k.shape[axis] = k.want[i]
	}
	return nil
}
