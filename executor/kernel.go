package executor

import (
	"errors"
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// Device makes kernels.
type Device interface {
	Name() string
	// Kernel returns the kernel for a node. The error is an *Unsupported if the device has none.
	Kernel(p *Prep) (Kernel, error)
}

// Virtual is a device whose memory is counted and not taken, for example package null's.
type Virtual interface{ Virtual() bool }

// Prep is a node's description before the first run.
type Prep struct {
	Node    *graph.Node
	Label   string // how messages name the node
	Info    *op.Info
	Version int           // schema version of the operator
	In, Out []graph.DType // element types; Undefined for an operand that is left out
	Shapes  [][]int       // of the outputs, nil where not known before the run
	// Seed is the seed of a random node without a seed attribute.
	Seed    uint64
	Threads int // how many threads Ctx.Parallel uses at most
	// Ranks is the group that the session is a rank of; nil means that it has no group.
	Ranks *Ranks
}

// Has reports whether input i is given.
func (p *Prep) Has(i int) bool { return i < len(p.In) && p.In[i] != graph.Undefined }

// Wants reports whether output i has a reader.
func (p *Prep) Wants(i int) bool { return i < len(p.Out) && p.Out[i] != graph.Undefined }

// DType returns the element type of input i, or Undefined.
func (p *Prep) DType(i int) graph.DType {
	if i >= len(p.In) {
		return graph.Undefined
	}
	return p.In[i]
}

// Errorf makes an error that names the node.
func (p *Prep) Errorf(format string, args ...any) error {
	return fmt.Errorf("node %q (%s): %w", p.Label, p.Node.Op, fmt.Errorf(format, args...))
}

// named puts the node's name in front of an error that does not have it yet.
func (p *Prep) named(err error) error {
	if shape := (*ShapeError)(nil); errors.As(err, &shape) {
		return err
	}
	return p.Errorf("%w", err)
}

// Unsupported makes the error of a node that is valid and that the device cannot
// run.
func (p *Prep) Unsupported(format string, args ...any) error {
	return &Unsupported{p.Errorf(format, args...)}
}

// Unsupported is the error for a node without a kernel on the device, with the reason.
type Unsupported struct{ Err error }

func (e *Unsupported) Error() string { return e.Err.Error() }
func (e *Unsupported) Unwrap() error { return e.Err }

// Kernel computes one node. A kernel belongs to one node of one session and is run by one goroutine
// at a time, so it may keep state between Run and Ctx.Parallel's calls, and buffers from run to
// run.
//
// From the second run with the same shapes on, Run does not allocate on Go's heap. Its results
// depend only on the inputs (and, for random nodes, on Prep.Seed and Ctx.Step): not on the
// addresses of operands, the number of threads, or whether output 0 lies in an input's memory.
type Kernel interface {
	Run(c *Ctx) error
}

// Workspacer is a kernel that needs memory besides its operands.
type Workspacer interface {
	// Workspace returns the bytes that a run with operands of these shapes takes by Ctx.Scratch. A
	// left-out operand has a nil shape. If the shapes are wrong, the run will fail, and the result
	// does not matter.
	Workspace(in, out [][]int) int
}

// Looper is a kernel that is one loop over the elements of output 0, each of which depends only on
// inputs at the same place, or on inputs that are the same for the whole run. Neighbouring loopers
// of the same length may be run block by block, one after the other within each block: each still
// reads and writes its own operands, but finds them in the cache.
//
// Run is the same as Begin and Ctx.Parallel over the kernel itself.
type Looper interface {
	Kernel
	Beginner
	// Range computes the elements lo..hi-1 of the loop that Begin began.
	Range(lo, hi int)
}

// Beginner is a node's part in a fusion group before its elements are computed.
type Beginner interface {
	// Begin checks the operands, calls Ctx.Out and returns the number of elements. If this run is
	// not such a loop, it returns -1 without an effect, and Run must be called.
	Begin(c *Ctx) (n int, err error)
}
