package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// Side is a model with all that is needed to run it.
type Side struct {
	Model *graph.Model
	Types *op.Result
	Order graph.Order  // nil means topological
	Dims  symbolic.Env // bindings of the inputs' symbols
	// Simulated is the memory of a step in stock ONNX Runtime's arena, by a simulation that knows
	// more than the graph; nil without a simulation.
	Simulated *ortsim.Peaks
}

// Options of Execute.
type Options struct {
	Engine  Engine
	Session executor.Options // Order and Dims are the side's
	Repeat  int              // measured runs; 0 means 1
	Warmup  int              // runs before these
	// Independent makes every step begin with the states of the inputs. Otherwise the first measured
	// one does, and each goes on with the states of the step before.
	Independent bool
	// Progress, if not nil, is called after every run.
	Progress func(done, total int)
}

// Run is the results and the memory of an execution.
type Run struct {
	Outputs   []Output
	Predicted executor.Prediction
	Measured  executor.Measured
	Arena     executor.ArenaStats
	Threads   int
	Feeds     []executor.Feed
	// For an accelerator: the nodes that the host runs, and why steps are not captured although
	// that was requested.
	HostNodes    []executor.HostNode
	LibraryNodes []executor.LibraryNode // convolutions that a vendor's library does, or could do
	WhyNoCapture string
	// Remarks are the device's remarks about how it ran the graph, such as libraries that it did
	// without.
	Remarks []string
	// Weights is the memory of inputs and weights that the session has copied.
	Weights executor.ArenaStats
	// DeviceGrowth is the loss of free memory that the device reports from the opening of the
	// session to the end of the first step: arena, weights, and its driver's own memory; 0 if the
	// device has no memory of its own.
	DeviceGrowth int64
	// Resident is by how much the process's resident memory grew in the first step; 0 if the system
	// does not report it.
	Resident int64
	Times    []time.Duration
	// Runtime describes the other runtime that executed; nil for a memopt device.
	Runtime *Runtime
}

// Runtime is the version and settings of ONNX Runtime if it executed.
type Runtime struct {
	Version      string
	Library      string // the file
	Optimization string
	MemPattern   bool
	Arena        bool // whether the arena's counts are known
	Parallel     bool
	Exact        bool // the arena splits chunks to fit
	Config       []string
	// Created is the bytes in use in the arena after the session was created: weights as the
	// runtime holds them.
	Created int64
	// LaterArena and LaterResident are the most that steps after the first took; 0 if there was
	// only one.
	LaterArena, LaterResident int64
	// States is how steps hand on states; nil if they are independent of each other.
	States *RuntimeStates
	// Bounded means that creating the session took more than a step, so that the step's figure is
	// an upper bound.
	Bounded bool
}

// RuntimeStates counts the places of states' next values in another runtime that is given memory for
// them.
type RuntimeStates struct {
	// States that are written over their old values, and their bytes.
	InPlace      int
	InPlaceBytes int64
	// States with a second buffer, which cost as many bytes more, and the largest of them with the
	// reason.
	Second      int
	SecondBytes int64
	Input, Why  string
	// Waiting is how many nodes were added that make nodes wait until old values have been read.
	Waiting int
}

// Output is a graph output with a copy of its data.
type Output struct {
	Name   string
	Tensor *executor.Tensor
}

// Min, Median and Max of the run times.
func (r *Run) Min() time.Duration { return slices.Min(r.Times) }

// Max returns the longest run time.
func (r *Run) Max() time.Duration { return slices.Max(r.Times) }

// Median returns the median run time, the mean of the two middle ones where their number is even.
func (r *Run) Median() time.Duration {
	t := slices.Sorted(slices.Values(r.Times))
	return (t[(len(t)-1)/2] + t[len(t)/2]) / 2
}

// Execute opens a side, runs it on the inputs and closes it. Outputs are those of the
// last run.
func Execute(ctx context.Context, side Side, inputs map[string]*executor.Tensor, opts Options) (*Run, error) {
	e, err := start(ctx, side, inputs, opts)
	if err != nil {
		return nil, err
	}
	defer e.close()
	for e.done < e.total {
		if err := e.step(ctx); err != nil {
			return e.run, err
		}
		if opts.Progress != nil {
			opts.Progress(e.done, e.total)
		}
	}
	return e.run, e.steps.Finish(ctx)
}

// output returns the output with the given name.
func (r *Run) output(name string) *executor.Tensor {
	for _, o := range r.Outputs {
		if o.Name == name {
			return o.Tensor
		}
	}
	return nil
}

// Check compares outputs with expected ones, by name, and returns the first difference.
func (r *Run) Check(want []Output, tol Tolerance) (*Difference, error) {
	for _, w := range want {
		got := r.output(w.Name)
		if got == nil {
			return nil, fmt.Errorf("output %q: the model has no such output", w.Name)
		}
		if d, _ := Compare(w.Name, got, w.Tensor, tol); d != nil {
			return d, nil
		}
	}
	return nil, nil
}
