package executor

import (
	"context"
	"fmt"

	"memopt/graph"
	"memopt/internal/mapfile"
)

// Ctx is a kernel's view of one run of its node.
type Ctx struct {
	// Step counts the training steps of the session from 0: random nodes draw different numbers in
	// every step.
	Step uint64
	// StepAt is device memory with Step as 8 bytes in little-endian order. Kernels of a step that
	// is being captured read it from there, because a replay does the same work in another step.
	// nil outside of captures.
	StepAt []byte
	// Flags collects errors that a kernel finds while the step is being captured and it cannot wait
	// for the device. nil if the kernel can check by itself.
	Flags *Flags
	// Context ends the run when it is done; kernels that run long check it.
	Context context.Context

	prep *Prep
	pool *Pool
	mem  Memorizer
	in   []*Tensor
	out  []*Tensor
}

// Memorizer gives a running node its memory.
type Memorizer interface {
	// Output returns memory for output slot: n bytes at a multiple of 64.
	Output(slot, n int) ([]byte, error)
	// Scratch returns n bytes at a multiple of 64 that are free after the run.
	Scratch(n int) ([]byte, error)
}

// NewCtx returns the context of a node's run. in and out have an entry per operand, nil if it is
// left out; the dtypes of out are set, shapes and data come with Out.
func NewCtx(p *Prep, pool *Pool, mem Memorizer, in, out []*Tensor) *Ctx {
	return &Ctx{prep: p, pool: pool, mem: mem, in: in, out: out}
}

// Inputs returns the number of inputs, left-out ones included.
func (c *Ctx) Inputs() int { return len(c.in) }

// In returns input i, or nil where it is left out.
func (c *Ctx) In(i int) *Tensor {
	if i >= len(c.in) {
		return nil
	}
	return c.in[i]
}

// Shape returns the shape of input i: nil if it is left out, not nil if it is a scalar.
func (c *Ctx) Shape(i int) []int {
	t := c.In(i)
	switch {
	case t == nil:
		return nil
	case t.Shape == nil:
		return []int{}
	}
	return t.Shape
}

// Outputs returns the number of outputs, left-out ones included.
func (c *Ctx) Outputs() int { return len(c.out) }

// Wants reports whether output i is wanted.
func (c *Ctx) Wants(i int) bool { return i < len(c.out) && c.out[i] != nil }

// Out gives output i its shape and memory and returns it, or nil if it is not wanted. The contents
// of the memory are undefined. Output 0 may lie in the memory of an input that the operator's row
// in graph/op lists as InPlace, and an output in the memory of the input whose next value it is
// (op.Info.States); no other output overlaps an input.
//
// If there is not enough memory, the run ends here with an error.
func (c *Ctx) Out(i int, shape ...int) *Tensor {
	if !c.Wants(i) {
		return nil
	}
	t := c.out[i]
	t.Shape = append(t.Shape[:0], shape...)
	n, ok := Bytes(t.DType, t.Shape)
	if !ok {
		panic(Fault{fmt.Errorf("output %d would have shape %v", i, t.Shape)})
	}
	data, err := c.mem.Output(i, n)
	if err != nil {
		panic(Fault{err})
	}
	t.Data = data
	return t
}

// View makes output i the input src under another shape, without a copy. Only operators that are
// views in the table of graph/op may do so, with output 0. For example, Reshape and Squeeze.
func (c *Ctx) View(i int, src *Tensor, shape ...int) {
	if !c.Wants(i) {
		return
	}
	if i != 0 || !c.prep.Info.View {
		panic(Fault{fmt.Errorf("output %d is made a view, which the operator table does not say", i)})
	}
	t := c.out[i]
	t.Shape = append(t.Shape[:0], shape...)
	t.Data = src.Data
}

// Scratch returns n bytes of workspace with undefined contents. The sum of all calls in a run, each
// rounded up to a multiple of 64, is at most the size that the kernel's Workspace announced.
func (c *Ctx) Scratch(n int) []byte {
	data, err := c.mem.Scratch(n)
	if err != nil {
		panic(Fault{err})
	}
	return data
}

// ScratchOf returns workspace for n elements.
func ScratchOf[T Elem](c *Ctx, n int) []T {
	var e [1]T
	return Cast[T](c.Scratch(n * len(Memory(e[:]))))[:n]
}

// RoundUp returns n rounded up to the multiple of 64 that Scratch charges.
func RoundUp(n int) int { return (n + 63) &^ 63 }

// Parallel runs a task over 0..n-1, as Pool.Run does.
func (c *Ctx) Parallel(n, grain int, t Task) { c.pool.Run(n, grain, t) }

// Threads returns the number of threads that Parallel uses at most.
func (c *Ctx) Threads() int { return c.pool.Threads() }

// Errorf makes an error about the node: which operand is wrong, and how. The session adds the
// node's name.
func (c *Ctx) Errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }

// Named puts the node's name in front of an error that is reported after the run.
func (c *Ctx) Named(err error) error { return c.prep.named(err) }

// Prep returns the facts known of the node before the run.
func (c *Ctx) Prep() *Prep { return c.prep }

// Fault carries an error out of the depth of a run as a panic; Invoke turns it back into an error.
type Fault struct{ Err error }

// Invoke runs a kernel and returns its error, with the node's name.
func Invoke(k Kernel, c *Ctx) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case Fault:
			err = c.prep.named(r.Err)
		default:
			if err = mapfile.Fault(r); err != nil {
				err = c.prep.named(err)
				return
			}
			panic(fmt.Sprintf("node %q (%s): %v", c.prep.Label, c.prep.Node.Op, r))
		}
	}()
	if err := k.Run(c); err != nil {
		return c.prep.named(err)
	}
	for i, t := range c.out {
		if t != nil && t.DType == graph.Undefined {
			return c.prep.Errorf("output %d has no element type", i)
		}
	}
	return nil
}

// Nested returns a context for a kernel that another kernel runs as a part of its own
// work, with its own operands and memory.
func Nested(c *Ctx, p *Prep, mem Memorizer, in, out []*Tensor) *Ctx {
	n := NewCtx(p, c.pool, mem, in, out)
	n.Step = c.Step
	return n
}
