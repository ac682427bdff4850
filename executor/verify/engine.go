package verify

import (
	"context"
	"time"

	"memopt/executor"
)

// Engine executes models: it is a device of memopt's ([On]), or another runtime.
type Engine interface {
	// Name is the engine's name in reports.
	Name() string
	Traits() Traits
	// Ready checks, before any work is done, that the engine is available.
	Ready(ctx context.Context) error
	// Open readies a side for steps on inputs, by their names; those that only the other side has
	// are left out. The error wraps executor.ErrOutOfMemory if memory does not suffice. The caller
	// closes the steps.
	Open(ctx context.Context, side Side, inputs map[string]*executor.Tensor, o Options) (Steps, error)
}

// Traits is how engines differ. The zero value is a device that computes.
type Traits struct {
	// Device is the memopt device that executes; nil for another runtime.
	Device executor.Device
	// Virtual means that memory is counted without computation, and outputs have no meaning.
	Virtual bool
	// Reorders means that the engine orders, merges and fuses nodes by itself, as stock ONNX
	// Runtime does. A rewritten graph needs anchors and guards there, equal graphs need not give
	// equal bits, and no observer is told of nodes.
	Reorders bool
	// PeakTolerance is the default of the excess of a measured arena over the prediction, as a
	// share of it.
	PeakTolerance float64
}

// Steps is a side that an engine has open.
type Steps interface {
	// Step executes one step and returns how long it took.
	Step(ctx context.Context) (time.Duration, error)
	// Run is the results and the memory of the steps so far. The caller fills in the times.
	Run() *Run
	// Shares reports, after a step or more, whether another side can be opened and executed while
	// this one stays open.
	Shares() bool
	// Fits reports whether there is memory for the steps of this side beside the memory in use.
	Fits() bool
	// Finish fetches the outputs of the last step.
	Finish(ctx context.Context) error
	Close() error
}

// execution is an open side with the steps that are done.
type execution struct {
	steps       Steps // nil if closed
	run         *Run
	warmup      int
	done, total int
}

// start opens a side.
func start(ctx context.Context, side Side, inputs map[string]*executor.Tensor,
	o Options) (*execution, error) {
	s, err := o.Engine.Open(ctx, side, inputs, o)
	if err != nil {
		return nil, err
	}
	total := o.Warmup + max(o.Repeat, 1)
	return &execution{steps: s, run: s.Run(), warmup: o.Warmup, total: total}, nil
}

// step executes one step; the first ones warm up.
func (e *execution) step(ctx context.Context) error {
	took, err := e.steps.Step(ctx)
	if err != nil {
		return err
	}
	if e.done >= e.warmup {
		e.run.Times = append(e.run.Times, took)
	}
	e.done++
	return nil
}

// close closes the side, once.
func (e *execution) close() {
	if e.steps != nil {
		e.steps.Close()
	}
	e.steps = nil
}
