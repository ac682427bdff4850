package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// sliceGradKernel is the gradient of Slice: zeros of the shape that input 1 lists, with the
// incoming gradient (input 0) where the slice took its elements.
type sliceGradKernel struct {
	mover
	moveFiller
	part  operand.Slicing
	shape []int
}

func newSliceGrad(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &sliceGradKernel{mover: mover{size: size}}, nil
}

// Run clears and copies.
func (k *sliceGradKernel) Run(c *executor.Ctx) (err error) {
	if k.shape, err = k.part.ReadGrad(c, k.shape); err != nil {
		return err
	}
	dx := c.Out(0, k.shape...)
	if dx == nil {
		return nil
	}
	k.zero(c, dx.Data)
	return k.part.Put(c, &k.mover, dx)
}
