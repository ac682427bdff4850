package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// detKernel is Det: Gaussian elimination in float64, with a block of threads for each matrix.
type detKernel struct{ *launch }

// newDet makes the kernel of Det.
func newDet(d *Device, p *executor.Prep) (executor.Kernel, error) {
	t := floatSuffix(p.DType(0))
	if t == "" {
		return nil, noTypes(p)
	}
	l, err := d.launch("det", "det_"+t)
	return detKernel{l}, err
}

// Workspace holds copies of the matrices.
func (k detKernel) Workspace(in, _ [][]int) int { return executor.RoundUp(8 * elements(in[0])) }

// Run computes the determinants.
func (k detKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	r := x.Rank()
	if r < 2 || x.Shape[r-1] != x.Shape[r-2] {
		return c.Errorf("input 0 has shape %v, wanted square matrices in the last two dims", x.Shape)
	}
	y := c.Out(0, x.Shape[:r-2]...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	a := k.begin()
	a.In(x.Data)
	a.Out(y.Data)
	a.Out(c.Scratch(8 * x.Len()))
	a.Int(y.Len())
	a.Int(x.Shape[r-1])
	return k.run(driver.Line(min(y.Len(), 1<<20), detThreads))
}

// detThreads is DET_THREADS of kernels/det.cu.
const detThreads = 256
