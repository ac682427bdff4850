package cpu

import (
	"memopt/executor"
)

// Gradients of Gather and GatherND, with the inputs shape of the data, indices and incoming
// gradient: zeros, to which every row of the gradient is added where it came from.

// rowsGrad is what they share.
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
	axis int64
}

func newGatherGrad(p *executor.Prep) (executor.Kernel, error) { return widened(makeGatherGrad)(p) }

func makeGatherGrad(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1, 2); err != nil {
		return nil, err
	}
	k := &gatherGradKernel{axis: p.Node.Int("axis", 0)}
	return k, k.init(p, 2)
}

// Workspace holds the offsets.
func (k *gatherGradKernel) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run adds up the rows by index.
func (k *gatherGradKernel) Run(c *executor.Ctx) error {
	at, dy := c.In(1), c.In(2)
	var err error
	if k.shape, err = moveShape(c, 0, k.shape[:0]); err != nil {
		return err
	}
	axis, err := moveAxis(c, k.axis, len(k.shape))
	if err != nil {
		return err
	}
	lead, rest := k.shape[:axis], k.shape[axis+1:]
	tail := dy.Shape[min(axis, dy.Rank()):]
	if dy.Rank() < axis || !moveJoined(dy.Shape[:axis], lead, nil) || !moveJoined(tail, at.Shape, rest) {
		return c.Errorf("input 2 has shape %v, wanted %v, %v and %v", dy.Shape, lead, at.Shape, rest)
	}
	k.outer, k.n, k.inner = product(lead), at.Len(), product(rest)
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
	at, dy := c.In(1), c.In(2)
	var err error
	if k.shape, err = moveShape(c, 0, k.shape[:0]); err != nil {
		return err
	}
	if n, ok := executor.Bytes(k.dtype, k.shape); !ok {
		return c.Errorf("input 0 lists the shape %v, of %d bytes", k.shape, n)
	}
	depth, err := k.index.tuples(c, k.shape, 1, k.batch)
	if err != nil {
		return err
	}
	lead, rest := at.Shape[:at.Rank()-1], k.shape[int(k.batch)+depth:]
	if !moveJoined(dy.Shape, lead, rest) {
		return c.Errorf("input 2 has shape %v, wanted %v and %v", dy.Shape, lead, rest)
	}
	if err := k.index.run(c, 1); err != nil {
		return err
	}
	k.outer, k.n, k.inner, k.stride = 1, k.index.count, product(rest), product(k.shape)
	k.finish(c, 2)
	return nil
}
