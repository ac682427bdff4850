package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/ortsim"
	"memopt/symbolic"
)

// Side is a model with what it takes to run it.
type Side struct {
	Model *graph.Model
	Types *op.Result
	Order graph.Order  // nil: topological
	Dims  symbolic.Env // bindings of the inputs' symbols
	// Simulated is what a step takes in stock ONNX Runtime's arena by a simulation that knows more
	// than the graph says; nil: there is none.
	Simulated *ortsim.Peaks
}

// Options of Execute.
type Options struct {
	Engine  Engine
	Session executor.Options // Order and Dims are the side's
	Repeat  int              // measured runs; 0: 1
	Warmup  int              // runs before these
	// Progress is told of every run that is done; nil: nobody.
	Progress func(done, total int)
}

// Run is what an execution gave and needed.
type Run struct {
	Outputs   []Output
	Predicted executor.Prediction
	Measured  executor.Measured
	Arena     executor.ArenaStats
	Threads   int
	Feeds     []executor.Feed
	// Of an accelerator: the nodes that the host runs, and why steps are not
	// captured where that was asked for.
	HostNodes    []executor.HostNode
	LibraryNodes []executor.LibraryNode // convolutions that a vendor's library does, or could do
	WhyNoCapture string
	// Remarks is what the device says of how it ran the graph: which libraries it went without.
	Remarks []string
	// Weights is what the session holds for inputs and weights that it has copied.
	Weights executor.ArenaStats
	// DeviceGrowth is by how much less memory the device says it has after the first step than
	// before the session was opened: arena, weights, and what its driver takes for itself; 0 where
	// the device has no memory of its own.
	DeviceGrowth int64
	// Resident is by how much the process's resident memory grew over what it was before
	// the first step, in that step; 0 where the system does not say.
	Resident int64
	Times    []time.Duration
	// Runtime is what there is to say of another runtime that executed; nil: a device of memopt's
	// did.
	Runtime *Runtime
}

// Runtime is what is known of ONNX Runtime where it executed.
type Runtime struct {
	Version      string
	Library      string // the file
	Optimization string
	MemPattern   bool
	Arena        bool // whether the arena's counts are known
	Parallel     bool
	Exact        bool // the arena splits chunks to fit
	Config       []string
	// Created is the bytes in use in the arena once the session was made: weights as the runtime
	// holds them.
	Created int64
	// LaterArena and LaterResident are the most that steps after the first took; 0 where there was
	// but one.
	LaterArena, LaterResident int64
	// Bounded says that making the session took more than a step, so that the step's figure is an
	// upper bound.
	Bounded bool
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
