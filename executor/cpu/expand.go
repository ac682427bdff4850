package cpu

import (
	"memopt/executor"
)

// expandKernel broadcasts input 0 with the shape that input 1 lists.
// https://onnx.ai/onnx/operators/onnx__Expand.html
type expandKernel struct {
	mover
	bytes             int
	want, shape, step []int
}

func newExpand(p *executor.Prep) (executor.Kernel, error) {
	size, err := moveSize(p, 0)
	return &expandKernel{bytes: size}, err
}

// Run repeats along the axes that are stretched.
func (k *expandKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	var err error
	if k.want, err = moveShape(c, 1, k.want[:0]); err != nil {
		return err
	}
	rank := max(len(k.want), x.Rank())
	k.shape = k.shape[:0]
	for i := range rank {
		a, b := moveDim(x.Shape, rank-i), moveDim(k.want, rank-i)
		if a != b && a != 1 && b != 1 {
			return c.Errorf("input 0 has shape %v and input 1 lists %v, which do not broadcast", x.Shape, k.want)
		}
		if a == 1 {
			a = b
		}
		k.shape = append(k.shape, a)
	}
	y := c.Out(0, k.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.step = moveSteps(k.step, k.shape)
	k.begin(k.bytes)
	from := x.Len()
	for i, d := range k.shape {
		if a := moveDim(x.Shape, rank-i); a == 1 {
			k.axis(d, k.step[i], 0)
		} else {
			from /= a
			k.axis(d, k.step[i], from)
		}
	}
	return k.run(c, y.Data, 0, x.Data, 0)
}

// moveDim returns the dim with the given number from the back, 1 being the last. Axes
// before the first have length 1.
func moveDim(shape []int, i int) int {
	if i > len(shape) {
		return 1
	}
	return shape[len(shape)-i]
}

// tileKernel repeats input 0 along its axes as often as input 1 lists.
// https://onnx.ai/onnx/operators/onnx__Tile.html
type tileKernel struct {
	mover
	bytes                int
	repeats, shape, step []int
}

func newTile(p *executor.Prep) (executor.Kernel, error) {
	if p.Version < 6 {
		return nil, p.Unsupported("version %d of the operator is not supported", p.Version)
	}
	size, err := moveSize(p, 0)
	return &tileKernel{bytes: size}, err
}

// Run copies with two axes per axis of the input: the repeats, and the elements.
func (k *tileKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	var err error
	if k.repeats, err = moveInts(c, 1, k.repeats[:0]); err != nil {
		return err
	}
	if len(k.repeats) != x.Rank() {
		return c.Errorf("input 1 has %d repeats and input 0 has shape %v", len(k.repeats), x.Shape)
	}
	k.shape = k.shape[:0]
	for i, r := range k.repeats {
		if r < 0 {
			return c.Errorf("input 1 has the repeat %d", r)
		}
		k.shape = append(k.shape, moveTimes(x.Shape[i], r))
	}
	y := c.Out(0, k.shape...)
	if y == nil || len(y.Data) == 0 {
		return nil
	}
	k.step = moveSteps(k.step, k.shape)
	k.begin(k.bytes)
	from := x.Len()
	for i, d := range x.Shape {
		from /= d
		k.axis(k.repeats[i], d*k.step[i], 0)
		k.axis(d, k.step[i], from)
	}
	return k.run(c, y.Data, 0, x.Data, 0)
}
