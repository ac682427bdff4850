package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/graph"
	"memopt/graph/op"
)

// maxOperands is MAX_OPERANDS of kernels/variadic.h.
const maxOperands = 16

// variadicKernel folds any number of operands: in one pass if they have the same shape; otherwise
// each in turn is stretched to the output's shape in workspace.
type variadicKernel struct {
	*launch
	spread *broadcastKernel
	size   int // bytes of an element
	mean   bool
	shape  []int
	parts  [][]byte // the operands in the output's shape
}

// variadic makes kernels of variadic.h, and of binary.h for two operands.
func variadic(name, pair string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		t := p.DType(0)
		mean := p.Node.Kind == op.Mean
		switch {
		case !isFloat(t) && t != graph.Int32 && t != graph.Int64 || mean && !isFloat(t):
			return nil, noTypes(p)
		case len(p.In) > maxOperands:
			return nil, p.Unsupported("no CUDA kernel has %d operands; at most %d", len(p.In), maxOperands)
		case len(p.In) == 2 && !mean:
			return binary(pair)(d, p)
		}
		l, err := d.launch("variadic_"+suffix(t), "fold_"+name+"_"+suffix(t))
		if err != nil {
			return nil, err
		}
		size := t.Bits() / 8
		spread, err := newExpandOf(d, size)
		if err != nil {
			return nil, err
		}
		return &variadicKernel{launch: l, spread: spread, size: size, mean: mean}, nil
	}
}

// Workspace returns room for the operands that are stretched.
func (k *variadicKernel) Workspace(in, out [][]int) int {
	n, total := k.size, 0
	for _, d := range out[0] {
		n *= d
	}
	for _, s := range in {
		if !slices.Equal(s, out[0]) {
			total += executor.RoundUp(n)
		}
	}
	return total
}

// Run folds the operands.
func (k *variadicKernel) Run(c *executor.Ctx) error {
	if err := k.stretch(c); err != nil {
		return err
	}
	n := k.size
	for _, d := range k.shape {
		n *= d
	}
	k.parts = k.parts[:0]
	for i := range c.Inputs() {
		x := c.In(i)
		if n == 0 || slices.Equal(x.Shape, k.shape) {
			k.parts = append(k.parts, x.Data)
			continue
		}
		whole := executor.Tensor{Shape: k.shape, Data: c.Scratch(n)}
		if err := k.spread.expand(c, x, &whole); err != nil {
			return err
		}
		k.parts = append(k.parts, whole.Data)
	}
	y := c.Out(0, k.shape...)
	if y == nil || n == 0 {
		return nil
	}
	k.pack(k.begin(), y)
	return k.line(n/k.size, 4)
}

// stretch finds the common shape of the operands.
func (k *variadicKernel) stretch(c *executor.Ctx) error {
	rank := 0
	for i := range c.Inputs() {
		if c.In(i) == nil {
			return c.Errorf("input %d is left out; it is required", i)
		}
		rank = max(rank, c.In(i).Rank())
	}
	k.shape = k.shape[:0]
	for range rank {
		k.shape = append(k.shape, 1)
	}
	for i := range c.Inputs() {
		if err := widenTo(c, k.shape, i, c.In(i)); err != nil {
			return err
		}
	}
	return nil
}

// widenTo widens a shape to one that operand i broadcasts to.
func widenTo(c *executor.Ctx, shape []int, i int, t *executor.Tensor) error {
	dims := shape[len(shape)-t.Rank():]
	for j, d := range t.Shape {
		switch {
		case dims[j] == 1:
			dims[j] = d
		case d != 1 && d != dims[j]:
			return c.Errorf("input %d has shape %v, which does not broadcast with that of the inputs before it, %v",
				i, t.Shape, shape)
		}
	}
	return nil
}

// pack packs variadic_args.
func (k *variadicKernel) pack(a *driver.Args, y *executor.Tensor) {
	for i := range maxOperands {
		if i < len(k.parts) {
			a.In(k.parts[i])
		} else {
			a.In(nil)
		}
	}
	a.Out(y.Data).Int(len(y.Data) / k.size).Int32(int32(len(k.parts)))
	scale := float32(1)
	if k.mean {
		scale = 1 / float32(len(k.parts))
	}
	a.Float32(scale)
}
