package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// moved is an operator that only copies elements to other places.
type moved struct {
	boxCopy
	move operand.Move
}

// newMoved makes the kernels of a move of input 0.
func newMoved(makeMove func(*executor.Prep) (operand.Move, error)) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		b, err := newBoxCopy(d, p, operand.ElementBytes(p.DType(0)))
		if err != nil {
			return nil, err
		}
		move, err := makeMove(p)
		return &moved{b, move}, err
	}
}

// Run copies.
func (k *moved) Run(c *executor.Ctx) error { return k.move.Run(c, &k.boxCopy) }

// joiner concatenates inputs along an axis. Output 1 of ConcatTraining lists their lengths along
// it.
type joiner struct {
	boxCopy
	whole   operand.Joining
	lengths []int64 // stays valid while it is copied
}

// newConcat makes the kernel of Concat and ConcatTraining.
func newConcat(axis int64) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		b, err := newBoxCopy(d, p, operand.ElementBytes(p.DType(0)))
		if err != nil {
			return nil, err
		}
		if p.Wants(1) && p.Out[1] != graph.Int64 {
			return nil, p.Unsupported("no CUDA kernel lists lengths as %v", p.Out[1])
		}
		return &joiner{boxCopy: b, whole: operand.Joining{Attr: p.Node.Int("axis", axis)}}, nil
	}
}

// Run copies each input into its place.
func (k *joiner) Run(c *executor.Ctx) error {
	if err := k.whole.Read(c); err != nil {
		return err
	}
	if err := k.list(c); err != nil {
		return err
	}
	return k.whole.Run(c, &k.boxCopy)
}

// list sets output 1 where it is wanted.
func (k *joiner) list(c *executor.Ctx) error {
	if !c.Wants(1) {
		return nil
	}
	k.lengths = k.lengths[:0]
	for i := range c.Inputs() {
		k.lengths = append(k.lengths, int64(c.In(i).Shape[k.whole.Axis]))
	}
	return k.d.Memory().CopyIn(c.Out(1, c.Inputs()).Data, executor.Memory(k.lengths))
}

// sliceGrad puts the incoming gradient (input 0) where the slice took its elements, into zeros of
// the shape that input 1 lists.
type sliceGrad struct {
	boxCopy
	part  operand.Slicing
	shape []int
}

// newSliceGrad makes the kernel of SliceGrad.
func newSliceGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, operand.ElementBytes(p.DType(0)))
	return &sliceGrad{boxCopy: b}, err
}

// Run clears and copies.
func (k *sliceGrad) Run(c *executor.Ctx) (err error) {
	if k.shape, err = k.part.ReadGrad(c, k.shape); err != nil {
		return err
	}
	dx := c.Out(0, k.shape...)
	if dx == nil || len(dx.Data) == 0 {
		return nil
	}
	if c.In(0).Len() < dx.Len() {
		if err := k.d.Memory().Fill(dx.Data, 0); err != nil {
			return err
		}
	}
	return k.part.Put(c, &k.boxCopy, dx)
}
