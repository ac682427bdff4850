package cuda

import "memopt/executor"

// lpNormKernel is LpNormalization.
type lpNormKernel struct {
	axisLaunch
	one bool // p = 1
}

// newLpNorm makes the kernel of LpNormalization.
func newLpNorm(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if !isFloat(p.DType(0)) {
		return nil, noTypes(p)
	}
	l, err := newAxisLaunch(d, p, "lpnorm", "lpnorm", false)
	return &lpNormKernel{l, p.Node.Int("p", 2) == 1}, err
}

// Run normalises.
func (k *lpNormKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.split(c, x.Shape); err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	a := k.either().begin()
	a.In(x.Data)
	a.Out(y.Data)
	a.Uint32(flag(k.one))
	return k.start(x.DType)
}
