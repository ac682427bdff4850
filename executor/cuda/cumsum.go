package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// cumSumKernel is CumSum.
type cumSumKernel struct {
	lines
	operand.RunningSum
}

// newCumSum makes CumSum.
func newCumSum(d *Device, p *executor.Prep) (executor.Kernel, error) {
	l, err := lineKernels(d, p, "cumsum", "cumsum")
	return &cumSumKernel{l, operand.NewRunningSum(p)}, err
}

// Run adds up.
func (k *cumSumKernel) Run(c *executor.Ctx) error {
	y, err := k.Begin(c)
	if y == nil {
		return err
	}
	return k.run(c.In(0), y, k.Axis, k.Exclusive, k.Reverse, true)
}
