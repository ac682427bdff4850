package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda/driver"
)

// convTransposeKernel is ConvTranspose: the transpose of a convolution from the channels of Y to
// those of X.
type convTransposeKernel struct {
	*convolver
	plan  convPlan
	shape []int
}

// newConvTranspose makes the kernel of ConvTranspose.
var newConvTranspose = convOf(cpu.NewConvTransposeGeometry, func(k *convolver) executor.Kernel {
	return &convTransposeKernel{convolver: k}
})

// Workspace returns the workspace of cuDNN, or that of the columns and cuBLAS.
func (k *convTransposeKernel) Workspace(in, _ [][]int) int {
	return k.workspace(in, driver.ConvData, k.spreadBytes)
}

// LibraryWork says who convolves.
func (k *convTransposeKernel) LibraryWork(in, _ [][]int) []executor.LibraryWork {
	return k.libraryWork(in, driver.ConvData, "transposed convolution", k.spreadBytes)
}

// Run checks the shapes and computes.
func (k *convTransposeKernel) Run(c *executor.Ctx) error {
	x, w := c.In(0), c.In(1)
	var err error
	if k.plan, err = newConvPlan(k.geometry, x.Shape, w.Shape, k.size); err != nil {
		return err
	}
	p := &k.plan
	p.backward(k.size)
	var bias []byte
	if b := c.In(2); b != nil {
		if b.Rank() != 1 || b.Shape[0] != p.c {
			return c.Errorf("input 2 (bias) has shape %v, wanted [%d]", b.Shape, p.c)
		}
		bias = b.Data
	}
	k.shape = append(append(k.shape[:0], p.n, p.c), p.In[3-p.Rank:]...)
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	var lent []byte
	if choice := k.choice(p, driver.ConvData); choice.library() {
		lent = c.Scratch(choice.algo.Workspace)
	} else {
		k.lend(c)
	}
	return k.spread(c, p, x.Data, w.Data, bias, y.Data, lent)
}
