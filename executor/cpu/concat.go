package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// concatKernel puts its inputs together along an axis.
// https://onnx.ai/onnx/operators/onnx__Concat.html
//
// ConcatTraining is the same, and its output 1 lists how long each input is along the axis.
type concatKernel struct {
	mover
	whole operand.Joining
}

func newConcat(p *executor.Prep) (executor.Kernel, error) {
	if p.Version >= 4 && p.Node.Attr("axis") == nil {
		return nil, p.Errorf("lacks the attribute axis")
	}
	return makeConcat(p, 1)
}

func newConcatTraining(p *executor.Prep) (executor.Kernel, error) { return makeConcat(p, 0) }

func makeConcat(p *executor.Prep, axis int64) (executor.Kernel, error) {
	slots := make([]int, max(len(p.In), 1))
	for i := range slots {
		slots[i] = i
	}
	size, err := moveSize(p, slots...)
	if err != nil {
		return nil, err
	}
	return &concatKernel{mover{size: size}, operand.Joining{Attr: p.Node.Int("axis", axis)}}, nil
}

// Run copies each input into its place.
func (k *concatKernel) Run(c *executor.Ctx) error {
	if err := k.whole.Read(c); err != nil {
		return err
	}
	k.lengths(c)
	return k.whole.Run(c, &k.mover)
}

// lengths lists the inputs' lengths in output 1 if that is wanted.
func (k *concatKernel) lengths(c *executor.Ctx) {
	if !c.Wants(1) {
		return
	}
	y := c.Out(1, c.Inputs())
	for i := range c.Inputs() {
		movePutInt(y, i, c.In(i).Shape[k.whole.Axis])
	}
}

// movePutInt sets element i of an integer output.
func movePutInt(y *executor.Tensor, i, v int) {
	switch y.DType {
	case graph.Int64:
		executor.Of[int64](y)[i] = int64(v)
	case graph.Int32:
		executor.Of[int32](y)[i] = int32(v)
	}
}
