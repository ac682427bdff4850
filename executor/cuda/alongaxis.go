package cuda

import (
	"memopt/executor"
	"memopt/graph"
)

// lines are the elements along an axis of a tensor [rows, n, inner], and the kernels for inner = 1 and for more.
type lines struct {
	along, across  *launch
	rows, n, inner int
}

// lineKernels gets kernels NAME_TYPE and NAMEcolumns_TYPE of a module, for floats and integers.
func lineKernels(d *Device, p *executor.Prep, module, name string) (l lines, err error) {
	t := p.DType(0)
	if !isFloat(t) && t != graph.Int32 && t != graph.Int64 {
		return l, noTypes(p)
	}
	if l.along, err = d.launch(module, name+"_"+suffix(t)); err != nil {
		return l, err
	}
	l.across, err = d.launch(module, name+"columns_"+suffix(t))
	return l, err
}

// run runs the kernel for the lines of x along axis, with two flags.
func (l *lines) run(x, y *executor.Tensor, axis int, first, second bool, warps bool) error {
	l.rows, l.n, l.inner = elements(x.Shape[:axis]), x.Shape[axis], elements(x.Shape[axis+1:])
	return l.start(x.Data, y.Data, first, second, warps)
}

// start runs the kernel for rows, n and inner as they are set.
func (l *lines) start(x, y []byte, first, second bool, warps bool) error {
	k := l.along
	if l.inner > 1 {
		k = l.across
	}
	a := k.begin()
	a.In(x)
	a.Out(y)
	a.Int(l.rows)
	a.Int(l.n)
	a.Int(l.inner)
	a.Uint32(flag(first))
	a.Uint32(flag(second))
	switch {
	case l.inner > 1:
		return k.line(l.rows*l.inner, 1)
	case warps:
		return k.folding(l.rows, 1)
	}
	return k.folding(l.rows, l.n)
}

// argKernel is ArgMax or ArgMin.
type argKernel struct {
	lines
	axis             int64
	keep, last, less bool
	shape            []int
}

// newArg makes ArgMax, or ArgMin where less holds.
func newArg(less bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		l, err := lineKernels(d, p, "arg", "arg")
		return &argKernel{lines: l, axis: p.Node.Int("axis", 0), keep: p.Node.Int("keepdims", 1) != 0,
			last: p.Node.Int("select_last_index", 0) != 0, less: less}, err
	}
}

// Run searches.
func (k *argKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	axis, err := rowAxis(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	k.shape = append(k.shape[:0], x.Shape[:axis]...)
	if k.keep {
		k.shape = append(k.shape, 1)
	}
	k.shape = append(k.shape, x.Shape[axis+1:]...)
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	if x.Shape[axis] == 0 {
		return c.Errorf("axis %d of input 0, of shape %v, has no elements to choose from", axis, x.Shape)
	}
	return k.run(x, y, axis, k.less, k.last, false)
}

// cumSumKernel is CumSum.
type cumSumKernel struct {
	lines
	exclusive, reverse bool
}

// newCumSum makes CumSum.
func newCumSum(d *Device, p *executor.Prep) (executor.Kernel, error) {
	l, err := lineKernels(d, p, "cumsum", "cumsum")
	return &cumSumKernel{l, p.Node.Int("exclusive", 0) != 0, p.Node.Int("reverse", 0) != 0}, err
}

// Run adds up.
func (k *cumSumKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	raw, err := integerScalar(c, 1, "the axis")
	if err != nil {
		return err
	}
	axis, err := rowAxis(c, raw, x.Rank())
	if err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	return k.run(x, y, axis, k.exclusive, k.reverse, true)
}
