package cuda

import "memopt/executor"

// hardmaxKernel is Hardmax: ArgMax's kernel finds the first largest elements, and
// kernels/hardmax.cu puts ones there.
type hardmaxKernel struct {
	softmaxAxis
	lines
	mark *launch
}

// newHardmax makes the kernel of Hardmax.
func newHardmax(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := p.DType(0)
	if !isFloat(t) {
		return nil, noTypes(p)
	}
	k := &hardmaxKernel{softmaxAxis: newSoftmaxAxis(p, p.Version < 13)}
	var err error
	if k.lines, err = lineKernels(d, p, "arg", "arg"); err != nil {
		return nil, err
	}
	k.mark, err = d.launch("hardmax", "hardmax_"+suffix(t))
	return k, err
}

// Workspace holds the places of the largest elements.
func (k *hardmaxKernel) Workspace(in, _ [][]int) int {
	axis := k.softmaxAxis
	if axis.split(nil, in[0]) != nil {
		return 0
	}
	return executor.RoundUp(8 * axis.outer * axis.inner)
}

// Run finds the largest elements and marks them.
func (k *hardmaxKernel) Run(c *executor.Ctx) error {
	x, s := c.In(0), &k.softmaxAxis
	if err := s.split(c, x.Shape); err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.lines.rows, k.lines.n, k.lines.inner = s.outer, s.n, s.inner
	chosen := c.Scratch(8 * s.outer * s.inner)
	if err := k.start(x.Data, chosen, false, false, false); err != nil {
		return err
	}
	a := k.mark.begin()
	a.In(chosen)
	a.Out(y.Data)
	a.Int(y.Len())
	a.Int(s.n)
	a.Int(s.inner)
	a.Divider(min(s.inner, 1<<31-1))
	a.Divider(min(s.n, 1<<31-1))
	return k.mark.line(y.Len(), 1)
}
