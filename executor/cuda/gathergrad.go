package cuda

import "memopt/executor"

// Gradients of Gather, GatherND and GatherElements: zeros, to which every row of the incoming gradient is added where it came
// from, in the order of the indices.

// rowsGrad is what they share: the shape of the data is in host memory.
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

// gatherGrad is the gradient of Gather, with the inputs shape of the data, indices and incoming gradient.
type gatherGrad struct {
	rowsGrad
	axis int64
}

// newGatherGrad makes the kernel of GatherGrad.
func newGatherGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	g, err := newRowsGrad(d, p, 1, 2)
	return &gatherGrad{g, p.Node.Int("axis", 0)}, err
}

// Workspace holds offsets and sorted rows.
func (k *gatherGrad) Workspace(in, _ [][]int) int { return scatterBytes(lengths(in[1])) }

// Run adds up the rows by index.
func (k *gatherGrad) Run(c *executor.Ctx) error {
	at, dy := c.In(1), c.In(2)
	var err error
	if k.shape, err = hostShape(c, 0, k.shape[:0]); err != nil {
		return err
	}
	axis, err := axisOf(c, k.axis, len(k.shape))
	if err != nil {
		return err
	}
	lead, rest := k.shape[:axis], k.shape[axis+1:]
	tail := dy.Shape[min(axis, dy.Rank()):]
	if dy.Rank() < axis || !joined(dy.Shape[:axis], lead, nil) || !joined(tail, at.Shape, rest) {
		return c.Errorf("input 2 has shape %v, wanted %v, %v and %v", dy.Shape, lead, at.Shape, rest)
	}
	k.outer, k.inner = lengths(lead), lengths(rest)
	k.stride = k.shape[axis] * k.inner
	k.index.single(at.Len(), k.shape[axis], k.inner)
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
func (k *gatherNDGrad) Workspace(in, _ [][]int) int { return scatterBytes(tupleCount(in[1])) }

// Run adds up the slices by tuple.
func (k *gatherNDGrad) Run(c *executor.Ctx) error {
	at, dy := c.In(1), c.In(2)
	var err error
	if k.shape, err = hostShape(c, 0, k.shape[:0]); err != nil {
		return err
	}
	if n, ok := executor.Bytes(dy.DType, k.shape); !ok {
		return c.Errorf("input 0 lists the shape %v, of %d bytes", k.shape, n)
	}
	depth, err := k.index.tuples(c, k.shape, k.batch)
	if err != nil {
		return err
	}
	lead, rest := at.Shape[:at.Rank()-1], k.shape[int(k.batch)+depth:]
	if !joined(dy.Shape, lead, rest) {
		return c.Errorf("input 2 has shape %v, wanted %v and %v", dy.Shape, lead, rest)
	}
	if err := k.index.run(c); err != nil {
		return err
	}
	k.outer, k.inner, k.stride = 1, lengths(rest), lengths(k.shape)
	return k.finishGrad(c, 2)
}

// gatherElementsGrad is the gradient of GatherElements, with the inputs incoming gradient, shape of the data, and indices.
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
func (k *gatherElementsGrad) Workspace(in, _ [][]int) int { return scatterBytes(lengths(in[2])) }

// Run adds the elements.
func (k *gatherElementsGrad) Run(c *executor.Ctx) error {
	dy, at := c.In(0), c.In(2)
	var err error
	if k.shape, err = hostShape(c, 1, k.shape[:0]); err != nil {
		return err
	}
	if !joined(dy.Shape, at.Shape, nil) {
		return c.Errorf("input 0 has shape %v, wanted %v as input 2", dy.Shape, at.Shape)
	}
	if err := k.index.elements(c, k.shape, k.axis); err != nil {
		return err
	}
	if err := k.index.run(c); err != nil {
		return err
	}
	k.outer, k.inner, k.stride = 1, 1, lengths(k.shape)
	return k.finishGrad(c, 0)
}
