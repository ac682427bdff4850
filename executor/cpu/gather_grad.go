package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// Gradients of Gather and GatherND, with the inputs shape of the data, indices and incoming
// gradient: every row of the gradient is added to zeros at the row's source.

// rowsGrad is the common part of the two.
type rowsGrad struct {
	scatterRows
	moveFiller
	shape []int
}

func (k *rowsGrad) init(p *executor.Prep, grad int) error {
	if _, err := moveSize(p, grad); err != nil {
		return err
	}
	if !scatterCan(p.DType(grad)) {
		return unsupportedTypes(p)
	}
	k.dtype, k.reduce = p.DType(grad), scatterAdd
	return nil
}

// finish makes output 0, adds the rows of input grad and returns it.
func (k *rowsGrad) finish(c *executor.Ctx, grad int) *executor.Tensor {
	dx := c.Out(0, k.shape...)
	if dx != nil {
		k.zero(c, dx.Data)
		k.scatterRows.run(c, dx.Data, c.In(grad).Data)
	}
	return dx
}

// gatherGradKernel is the gradient of Gather.
type gatherGradKernel struct {
	rowsGrad
	from operand.Gathering
}

func newGatherGrad(p *executor.Prep) (executor.Kernel, error) { return widened(makeGatherGrad)(p) }

func makeGatherGrad(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1, 2); err != nil {
		return nil, err
	}
	k := &gatherGradKernel{from: operand.NewGathering(p)}
	return k, k.init(p, 2)
}

// Workspace holds the offsets.
func (k *gatherGradKernel) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run adds up the rows by index.
func (k *gatherGradKernel) Run(c *executor.Ctx) error {
	if err := k.from.ReadGrad(c); err != nil {
		return err
	}
	k.shape = k.from.Shape
	axis := k.from.Axis
	k.outer, k.n, k.inner = product(k.shape[:axis]), c.In(1).Len(), product(k.shape[axis+1:])
	k.stride = k.shape[axis] * k.inner
	k.index.single(k.n, k.shape[axis], k.inner)
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	k.finish(c, 2)
	return nil
}

// gatherNDGradKernel is the gradient of GatherND.
type gatherNDGradKernel struct {
	rowsGrad
	batch int64
}

func newGatherNDGrad(p *executor.Prep) (executor.Kernel, error) {
	return widened(makeGatherNDGrad)(p)
}

func makeGatherNDGrad(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1, 2); err != nil {
		return nil, err
	}
	k := &gatherNDGradKernel{batch: p.Node.Int("batch_dims", 0)}
	return k, k.init(p, 2)
}

// Workspace holds the offsets.
func (k *gatherNDGradKernel) Workspace(in, _ [][]int) int { return moveTupleBytes(in[1]) }

// Run adds up the slices by tuple.
func (k *gatherNDGradKernel) Run(c *executor.Ctx) error {
	var err error
	if k.shape, err = operand.Shape(c, 0, k.shape[:0]); err != nil {
		return err
	}
	if n, ok := executor.Bytes(k.dtype, k.shape); !ok {
		return c.Errorf("input 0 lists the shape %v, of %d bytes", k.shape, n)
	}
	depth, err := k.index.tuples(c, k.shape, 1, k.batch)
	if err != nil {
		return err
	}
	rest, err := operand.CheckSlices(c, 2, k.shape, k.batch, depth)
	if err != nil {
		return err
	}
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	k.outer, k.n, k.inner, k.stride = 1, k.index.Count, product(rest), product(k.shape)
	k.finish(c, 2)
	return nil
}

// gatherElementsGradKernel is the gradient of GatherElements, with the inputs incoming gradient,
// shape of the data, and indices: each element is added to zeros at its source.
type gatherElementsGradKernel struct {
	elementLines
	moveFiller
	axis  int64
	shape []int
}

func newGatherElementsGrad(p *executor.Prep) (executor.Kernel, error) {
	return widened(makeGatherElementsGrad)(p)
}

func makeGatherElementsGrad(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1, 2); err != nil {
		return nil, err
	}
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	if !scatterCan(p.DType(0)) {
		return nil, unsupportedTypes(p)
	}
	return &gatherElementsGradKernel{axis: p.Node.Int("axis", 0),
		elementLines: elementLines{size: size, dtype: p.DType(0), reduce: scatterAdd}}, nil
}

// Workspace holds the offsets.
func (k *gatherElementsGradKernel) Workspace(in, _ [][]int) int {
	return moveIndexBytes(product(in[2]))
}

// Run adds the elements.
func (k *gatherElementsGradKernel) Run(c *executor.Ctx) error {
	var err error
	if k.shape, err = operand.Shape(c, 1, k.shape[:0]); err != nil {
		return err
	}
	if err := operand.Like(c, 0, 2); err != nil {
		return err
	}
	if err := k.prepare(c, 2, k.shape, k.axis); err != nil {
		return err
	}
	if dx := c.Out(0, k.shape...); dx != nil {
		k.zero(c, dx.Data)
		k.elementLines.run(c, dx.Data, c.In(0).Data)
	}
	return nil
}
