package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// shapeKernel lists the dims of its input, from start to end, which are clamped to the rank.
// https://onnx.ai/onnx/operators/onnx__Shape.html
type shapeKernel struct{ start, end int64 }

func newShape(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0); err != nil {
		return nil, err
	}
	if err := moveWantInt64(p); err != nil {
		return nil, err
	}
	k := &shapeKernel{0, 1 << 62}
	if p.Version >= 15 {
		k.start, k.end = p.Node.Int("start", 0), p.Node.Int("end", k.end)
	}
	return k, nil
}

func moveWantInt64(p *executor.Prep) error {
	if p.Wants(0) && p.Out[0] != graph.Int64 {
		return p.Errorf("output 0 has type %v, wanted int64", p.Out[0])
	}
	return nil
}

// Run lists dims.
func (k *shapeKernel) Run(c *executor.Ctx) error {
	shape := c.In(0).Shape
	start, end := holdAxis(k.start, len(shape)), holdAxis(k.end, len(shape))
	shape = shape[start:max(start, end)]
	y := c.Out(0, len(shape))
	if y == nil {
		return nil
	}
	for i, d := range shape {
		movePutInt(y, i, d)
	}
	return nil
}

// holdAxis counts a bound from the front and clamps it to 0..rank.
func holdAxis(axis int64, rank int) int {
	if axis < 0 {
		axis += int64(rank)
	}
	return int(min(max(axis, 0), int64(rank)))
}

// sizeKernel counts the elements of its input.
// https://onnx.ai/onnx/operators/onnx__Size.html
type sizeKernel struct{}

func newSize(p *executor.Prep) (executor.Kernel, error) {
	if err := moveNeeds(p, 0); err != nil {
		return nil, err
	}
	return &sizeKernel{}, moveWantInt64(p)
}

// Run counts.
func (*sizeKernel) Run(c *executor.Ctx) error {
	if y := c.Out(0); y != nil {
		movePutInt(y, 0, c.In(0).Len())
	}
	return nil
}
