package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// gatherElementsKernel: the result has the shape of the indices.
// https://onnx.ai/onnx/operators/onnx__GatherElements.html
type gatherElementsKernel struct {
	elementLines
	axis int64
}

func newGatherElements(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1); err != nil {
		return nil, err
	}
	size, err := moveSize(p, 0)
	if err != nil {
		return nil, err
	}
	return &gatherElementsKernel{elementLines{size: size, gather: true}, p.Node.Int("axis", 0)}, nil
}

// Workspace holds the offsets.
func (k *gatherElementsKernel) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run picks the elements.
func (k *gatherElementsKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.prepare(c, 1, x.Shape, k.axis); err != nil {
		return err
	}
	if y := c.Out(0, c.In(1).Shape...); y != nil {
		k.run(c, x.Data, y.Data)
	}
	return nil
}

// scatterElementsKernel is a copy of the data in which single elements are combined with
// updates; those of one element in the order of the indices. Scatter is its old name.
// https://onnx.ai/onnx/operators/onnx__ScatterElements.html
type scatterElementsKernel struct {
	wholeCopy
	elementLines
	axis int64
}

func newScatterElements(p *executor.Prep) (executor.Kernel, error) {
	if p.Node.Str("reduction", "none") != "none" {
		return widened(makeScatterElements)(p)
	}
	return makeScatterElements(p)
}

func makeScatterElements(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0, 1, 2); err != nil {
		return nil, err
	}
	size, err := moveSize(p, 0, 2)
	if err != nil {
		return nil, err
	}
	r, err := readScatterReduction(p)
	if err != nil {
		return nil, err
	}
	return &scatterElementsKernel{axis: p.Node.Int("axis", 0),
		elementLines: elementLines{size: size, dtype: p.DType(0), reduce: r}}, nil
}

// Workspace holds the offsets.
func (k *scatterElementsKernel) Workspace(in, _ [][]int) int { return moveIndexBytes(product(in[1])) }

// Run copies the data, unless it is in place, and scatters.
func (k *scatterElementsKernel) Run(c *executor.Ctx) error {
	if err := operand.Like(c, 2, 1); err != nil {
		return err
	}
	x, u := c.In(0), c.In(2)
	if err := k.prepare(c, 1, x.Shape, k.axis); err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	if err := k.copyUnlessSame(c, y.Data, x.Data); err != nil {
		return err
	}
	k.elementLines.run(c, y.Data, u.Data)
	return nil
}

// gatherElementsGradKernel is the gradient of GatherElements, with the inputs incoming gradient,
// shape of the data, and indices: zeros, to which each element is added where it came from.
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
