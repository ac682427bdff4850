package cuda

import "memopt/executor"

// lpNormKernel is LpNormalization.
type lpNormKernel struct {
	*launch // along neighbouring elements
	columns *launch
	softmaxAxis
	one bool // p = 1
}

// newLpNorm makes the kernel of LpNormalization.
func newLpNorm(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := suffix(p.DType(0))
	if !isFloat(p.DType(0)) {
		return nil, noTypes(p)
	}
	k := &lpNormKernel{softmaxAxis: newSoftmaxAxis(p, false), one: p.Node.Int("p", 2) == 1}
	var err error
	if k.launch, err = d.launch("lpnorm_"+t, "lpnorm_"+t); err != nil {
		return nil, err
	}
	k.columns, err = d.launch("lpnorm_"+t, "lpnormcolumns_"+t)
	return k, err
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
	l := k.launch
	if k.inner > 1 {
		l = k.columns
	}
	a := l.begin()
	a.In(x.Data)
	a.Out(y.Data)
	a.Int(k.outer)
	a.Int(k.n)
	a.Int(k.inner)
	a.Uint32(flag(k.one))
	a.Uint32(wide(x.DType, k.n))
	if k.inner > 1 {
		return l.line(k.outer*k.inner, 1)
	}
	return l.teams(k.outer, k.n)
}
