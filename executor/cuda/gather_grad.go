package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// Gradients of Gather, GatherND and GatherElements: every row of the incoming gradient is added to
// zeros at the row's source, in the order of the indices.

// rowsGrad is their common part: the shape of the data is in host memory.
type rowsGrad struct {
	scatterer
	shape []int
}

func newRowsGrad(d *Device, p *executor.Prep, indices, grad int) (rowsGrad, error) {
	s, err := newScatterer(d, p, indices, p.DType(grad), reductions["add"])
	return rowsGrad{scatterer: s}, err
}

// finishGrad makes output 0 and adds the rows of an input.
func (k *rowsGrad) finishGrad(c *executor.Ctx, grad int) error {
	dx := c.Out(0, k.shape...)
	if dx == nil || len(dx.Data) == 0 {
		return nil
	}
	if err := k.index.d.Memory().Fill(dx.Data, 0); err != nil {
		return err
	}
	return k.scatter(c, dx.Data, c.In(grad).Data)
}

// gatherGrad is the gradient of Gather, with the inputs shape of the data, indices and incoming
// gradient.
type gatherGrad struct {
	rowsGrad
	from operand.Gathering
}

// newGatherGrad makes the kernel of GatherGrad.
func newGatherGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := newRowsGrad(d, p, 1, 2)
	return &gatherGrad{g, operand.NewGathering(p)}, err
}

// Workspace holds offsets and sorted rows.
func (k *gatherGrad) Workspace(in, _ [][]int) int { return scatterBytes(elements(in[1])) }

// Run adds up the rows by index.
func (k *gatherGrad) Run(c *executor.Ctx) error {
	if err := k.from.ReadGrad(c); err != nil {
		return err
	}
	k.shape = k.from.Shape
	axis := k.from.Axis
	k.outer, k.inner = elements(k.shape[:axis]), elements(k.shape[axis+1:])
	k.stride = k.shape[axis] * k.inner
	k.index.single(c.In(1).Len(), k.shape[axis], k.inner)
	if err := k.index.run(c); err != nil {
		return err
	}
	return k.finishGrad(c, 2)
}

// gatherNDGrad is the gradient of GatherND, with the same inputs.
type gatherNDGrad struct {
	rowsGrad
	batch int64
}

// newGatherNDGrad makes the kernel of GatherNDGrad.
func newGatherNDGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := newRowsGrad(d, p, 1, 2)
	return &gatherNDGrad{g, p.Node.Int("batch_dims", 0)}, err
}

// Workspace holds offsets and sorted slices.
func (k *gatherNDGrad) Workspace(in, _ [][]int) int { return scatterBytes(operand.TupleCount(in[1])) }

// Run adds up the slices by tuple.
func (k *gatherNDGrad) Run(c *executor.Ctx) error {
	var err error
	if k.shape, err = operand.Shape(c, 0, k.shape[:0]); err != nil {
		return err
	}
	if n, ok := executor.Bytes(c.In(2).DType, k.shape); !ok {
		return c.Errorf("input 0 lists the shape %v, of %d bytes", k.shape, n)
	}
	depth, err := k.index.tuples(c, k.shape, k.batch)
	if err != nil {
		return err
	}
	rest, err := operand.CheckSlices(c, 2, k.shape, k.batch, depth)
	if err != nil {
		return err
	}
	if err := k.index.run(c); err != nil {
		return err
	}
	k.outer, k.inner, k.stride = 1, elements(rest), elements(k.shape)
	return k.finishGrad(c, 2)
}

// gatherElementsGrad is the gradient of GatherElements, with the inputs incoming gradient, shape of
// the data, and indices.
type gatherElementsGrad struct {
	rowsGrad
	axis int64
}

// newGatherElementsGrad makes the kernel of GatherElementsGrad.
func newGatherElementsGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := newRowsGrad(d, p, 2, 0)
	return &gatherElementsGrad{g, p.Node.Int("axis", 0)}, err
}

// Workspace holds offsets and sorted elements.
func (k *gatherElementsGrad) Workspace(in, _ [][]int) int { return scatterBytes(elements(in[2])) }

// Run adds the elements.
func (k *gatherElementsGrad) Run(c *executor.Ctx) error {
	var err error
	if k.shape, err = operand.Shape(c, 1, k.shape[:0]); err != nil {
		return err
	}
	if err := operand.Like(c, 0, 2); err != nil {
		return err
	}
	if err := k.index.elements(c, k.shape, k.axis); err != nil {
		return err
	}
	if err := k.index.run(c); err != nil {
		return err
	}
	k.outer, k.inner, k.stride = 1, 1, elements(k.shape)
	return k.finishGrad(c, 0)
}
