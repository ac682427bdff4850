// Package resident executes steps that share states: the loop of a training job. A Machine keeps
// the states where it computes, under their names; steps opened on it, such as a micro-step, an
// update and an evaluation, read and write them there, and take turns in one arena of activations.
//
// The machine of memopt's own devices is here; that of ONNX Runtime is in executor/ort/ortengine.
package resident

import (
	"context"

	"memopt/executor"
	"memopt/executor/verify"
	"memopt/graph"
)

// Engine executes steps that share states; states stay where it executes.
type Engine interface {
	// Name is the engine's name in reports.
	Name() string
	Traits() verify.Traits
	// Ready checks, before any work is done, that the engine is available.
	Ready(ctx context.Context) error
	// Start makes a Machine without states. Order and Dims of the options are ignored, as each side
	// has its own, and so are Arena and Store, as the machine has its own.
	Start(ctx context.Context, o executor.Options) (Machine, error)
}

// Machine has states by name and steps that share them. It is used by one goroutine at a time.
type Machine interface {
	// Put makes a state, or overwrites one of the same type and shape, with a copy of a tensor. The
	// error wraps executor.ErrOutOfMemory if there is no memory for it.
	Put(name string, t *executor.Tensor) error
	// Zero makes a state of zeros, or overwrites one of the same type and shape with them.
	Zero(name string, d graph.DType, shape []int) error
	// Read copies a state to the host; dst must have its size.
	Read(name string, dst []byte) error
	// StateBytes is the size of all states, in bytes; of ONNX Runtime with second buffers, as far
	// as steps need them.
	StateBytes() int64
	// Open readies a step. Graph inputs that have the name of a state, and initializers that are
	// states of the graph (live.FindStates), lie in the machine's memory: they are read there, and
	// written there if they are states of the graph. All steps share one arena, of the size of the
	// largest. The error wraps executor.ErrOutOfMemory if memory does not suffice for the states
	// and that arena.
	Open(ctx context.Context, side verify.Side, o StepOptions) (Step, error)
	// Close closes the steps and frees all memory.
	Close() error
}

// Outside is a Machine that executes in another process, whose memory counts beside that of this
// process. States that both share count in the process that executes.
type Outside interface {
	// ProcessMemory is the process's memory as the operating system reports it; zeros if it does
	// not, or if the process has ended.
	ProcessMemory() executor.ProcessMemory
}

// StepOptions are the options of a step.
type StepOptions struct {
	// Fetch names the graph outputs that Step.Output returns; others stay where they are.
	Fetch []string
	// Watch names values that must be finite in every step, such as the loss and the norm of the
	// gradients. Where they are not, Run ends with a *NotFiniteError. On the CPU no state has been
	// written then; a plan that is to know this needs the names in the model (op.RecordWatch). On
	// other engines they must be graph outputs and are looked at when the step is done.
	Watch []string
}

// NotFiniteError names a watched value that is not finite, for example the loss.
type NotFiniteError = executor.NotFiniteError

// Step is a graph made ready to run on a machine.
type Step interface {
	// Inputs lists the inputs of Run: the graph inputs that are no states and have no default, in
	// the graph's order, and then the gradients that a boundary node outputs.
	Inputs() []string
	// Run executes the step once; inputs are by place as in Inputs, and are not changed. That of a
	// gradient may be nil in every run: it then equals the boundary node's input. number is the
	// training step; random draws depend on it, and not on the count of runs in this process. From
	// the second run on, the CPU makes no allocation. The errors are those of executor.Session.Run,
	// among them *executor.TornError: no step runs after it until all states are put again.
	Run(ctx context.Context, number uint64, inputs []*executor.Tensor) error
	// Output returns output i of StepOptions.Fetch. It is valid until the next Run of any step of
	// the machine.
	Output(i int) *executor.Tensor
	// Predicted is the step's memory as known before it runs.
	Predicted() executor.Prediction
	// Measured is the memory that the runs so far needed.
	Measured() executor.Measured
	// FirstBad executes the step again on the given inputs, up to the first node that writes a state, and
	// returns the origin of numbers that are not finite: the first value that begins a path of such values to a
	// watched one; without such a path, the first value that is not finite. Infinities of constants, for example
	// in masks, and copies of them do not count. node is the label of the node that made the value, or OfInput,
	// OfState or OfModel. All results are "" if all numbers are finite. No state changes.
	FirstBad(ctx context.Context, number uint64, inputs []*executor.Tensor) (
		value, node string, err error)
	// Close frees the step's own memory.
	Close() error
}

// Results of FirstBad in place of a node, for values without a producer.
const (
	OfInput = "(an input of the step)"
	OfState = "(a state, such as a weight or a moment)"
	OfModel = "(a constant of the model)"
)
