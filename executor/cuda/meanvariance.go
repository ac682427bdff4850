package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/operand"
)

// meanVariance is MeanVarianceNormalization.
type meanVariance struct {
	*launch // groups of neighbouring elements
	columns *launch
	axes    []int64
	folded  []bool
	plan    foldPlan
}

// newMeanVariance makes the kernel of MeanVarianceNormalization.
func newMeanVariance(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := suffix(p.DType(0))
	if !isFloat(p.DType(0)) {
		return nil, noTypes(p)
	}
	k := &meanVariance{axes: p.Node.IntList("axes", []int64{0, 2, 3})}
	var err error
	if k.launch, err = d.launch("meanvariance_"+t, "meanvariance_"+t); err != nil {
		return nil, err
	}
	k.columns, err = d.launch("meanvariance_"+t, "meanvariancecolumns_"+t)
	return k, err
}

// Run normalises.
func (k *meanVariance) Run(c *executor.Ctx) error {
	x, p := c.In(0), &k.plan
	k.folded = k.folded[:0]
	for range x.Shape {
		k.folded = append(k.folded, false)
	}
	for _, axis := range k.axes {
		at, err := operand.DataAxis(c, axis, x.Rank())
		if err != nil {
			return err
		}
		k.folded[at] = true
	}
	p.set(x.Shape, k.folded)
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	if !p.fits() {
		return c.Errorf("axes of input 0, of shape %v, alternate more often than the CUDA kernels allow: %d times",
			x.Shape, maxFolds)
	}
	l := k.launch
	if p.columns {
		l = k.columns
	}
	a := l.begin()
	a.In(x.Data)
	a.Out(y.Data)
	a.Int(p.outs)
	a.Int(p.inner)
	a.Int(p.runs)
	a.Int(p.count)
	packFold(a, &p.kept)
	packFold(a, &p.fold)
	a.Divider(min(p.inner, 1<<31-1))
	a.Uint32(wide(x.DType, p.inner))
	if p.columns {
		return l.tiles(p.outs*((p.inner+31)/32), 8)
	}
	return l.teams(p.outs, p.count)
}

// packFold packs dims as axes with their steps.
func packFold(a *driver.Args, f *foldDims) {
	packAxes(a, len(f.dims), func(i int) int { return min(f.dims[i], 1<<31-1) })
	packInts(a, len(f.steps), func(i int) int { return f.steps[i] })
}
