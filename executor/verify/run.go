package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/memlimit"
	"memopt/symbolic"
)

// Side is a model with what it takes to run it.
type Side struct {
	Model *graph.Model
	Types *op.Result
	Order graph.Order  // nil: topological
	Dims  symbolic.Env // bindings of the inputs' symbols
}

// Options of Execute.
type Options struct {
	Device  executor.Device
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

// Execute opens a session for a side, runs it on the inputs and closes it. Outputs are those of the
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
	return e.run, e.finish()
}

// execution is a session with what its steps gave so far.
type execution struct {
	graph       *graph.Graph
	session     *executor.Session // nil: closed
	run         *Run
	warmup      int
	done, total int
	device      executor.Device
	available   int64 // of the device's memory before the session
}

// available returns how many bytes of an accelerator's memory are free, 0 of other devices.
func available(d executor.Device) int64 {
	if a, ok := d.(executor.Accelerator); ok {
		free, _ := a.Memory().Available()
		return free
	}
	return 0
}

// start opens a session for a side and gives it its inputs. The caller closes the session.
func start(ctx context.Context, side Side, inputs map[string]*executor.Tensor, opts Options) (*execution, error) {
	opts.Session.Order, opts.Session.Dims = side.Order, side.Dims
	opts.Session.Beside = outputBytes(side)
	before := available(opts.Device)
	s, err := executor.Open(ctx, side.Model, side.Types, opts.Device, opts.Session)
	if err != nil {
		return nil, err
	}
	if err := feed(s, inputs); err != nil {
		s.Close()
		return nil, err
	}
	s.Fetch(losses(side)...)
	return &execution{graph: side.Model.Graph, session: s, device: opts.Device, available: before, warmup: opts.Warmup,
		total: opts.Warmup + max(opts.Repeat, 1),
		run: &Run{Predicted: s.Prediction(), Threads: s.Threads(), Feeds: s.Feeds(), HostNodes: s.HostNodes(),
			LibraryNodes: s.LibraryNodes(), WhyNoCapture: s.WhyNoCapture()}}, nil
}

// lossBytes is the size up to which an output is taken for a loss or the like, at which a training
// loop looks in every step. The larger ones are copied from the device after the last step.
const lossBytes = 4096

// losses lists the numbers of the outputs that are copied from the device in every step.
func losses(side Side) (list []int) {
	g := side.Model.Graph
	for i, d := range g.Outputs {
		t := g.Values[d.Value].Type
		shape := executor.EvalShape(t, side.Dims)
		if n, ok := executor.Bytes(t.DType, shape); ok && shape != nil && n <= lossBytes {
			list = append(list, i)
		}
	}
	return list
}

// outputBytes is what the copies of the outputs will take, as far as their sizes are known.
func outputBytes(side Side) (sum int64) {
	g := side.Model.Graph
	for _, d := range g.Outputs {
		t := g.Values[d.Value].Type
		shape := executor.EvalShape(t, side.Dims)
		if n, ok := executor.Bytes(t.DType, shape); ok && shape != nil {
			sum += int64(n)
		}
	}
	return sum
}

// close ends the session, once.
func (e *execution) close() {
	if e.session != nil {
		e.session.Close()
	}
	e.session = nil
}

// step runs one step; the first ones warm up. By how much resident memory grows is seen at the
// first one, before another session is there.
func (e *execution) step(ctx context.Context) error {
	if e.done == 0 {
		before := executor.SettleProcessMemory()
		defer func() {
			if after := executor.ReadProcessMemory(); after.Peak > 0 {
				e.run.Resident = max(after.Peak-before.Resident, 0)
			}
		}()
	}
	begin := time.Now()
	if err := e.session.Run(ctx); err != nil {
		return err
	}
	if e.done == 0 {
		e.run.DeviceGrowth = e.available - available(e.device)
	}
	if e.done >= e.warmup {
		e.run.Times = append(e.run.Times, time.Since(begin))
	}
	e.done++
	return nil
}

// remarker is a device that has something to say of how it runs graphs.
type remarker interface{ Remarks() []string }

// finish notes what all steps needed and copies the outputs of the last one.
func (e *execution) finish() error {
	e.run.Measured, e.run.Arena, e.run.Weights = e.session.Measured(), e.session.ArenaStats(), e.session.WeightStats()
	if d, ok := e.device.(remarker); ok {
		e.run.Remarks = d.Remarks()
	}
	for i, d := range e.graph.Outputs {
		t := e.session.Output(i)
		if err := memlimit.Check(int64(len(t.Data)), "a copy of output %q (%v)", e.graph.ValueName(d.Value),
			t); err != nil {
			return err
		}
		e.run.Outputs = append(e.run.Outputs, Output{e.graph.Values[d.Value].Name,
			&executor.Tensor{DType: t.DType, Shape: slices.Clone(t.Shape), Data: bytes.Clone(t.Data)}})
	}
	return nil
}

// feed gives a session its inputs; those of the other model's alone are left out.
func feed(s *executor.Session, inputs map[string]*executor.Tensor) error {
	g := s.Model().Graph
	for _, d := range g.Inputs {
		name := g.Values[d.Value].Name
		if t := inputs[name]; t != nil {
			if err := s.SetInput(name, t); err != nil {
				return err
			}
		}
	}
	for _, f := range s.Feeds() {
		name := g.Values[f.Value].Name
		if t := inputs[name]; t != nil {
			if err := s.SetInput(name, t); err != nil {
				return err
			}
		}
	}
	return nil
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
