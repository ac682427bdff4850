package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// argKernel is ArgMax or ArgMin.
type argKernel struct {
	lines
	operand.ArgSearch
}

// newArg makes ArgMax, or ArgMin where less holds.
func newArg(less bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		l, err := lineKernels(d, p, "arg", "arg")
		return &argKernel{l, operand.NewArgSearch(p, less)}, err
	}
}

// Run searches.
func (k *argKernel) Run(c *executor.Ctx) error {
	y, err := k.Begin(c)
	if y == nil {
		return err
	}
	return k.run(c.In(0), y, k.Axis, k.Less, k.Last, false)
}
