package optimize

import (
	"context"
	"errors"
	"fmt"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/graph/roles"
	"memopt/inference/edit"
)

// Options of Run. The zero value is valid.
type Options struct {
	// Skip are globs of names of passes that are left out; Exact leaves out those that change bits.
	Skip  []string
	Exact bool
	// Inference first makes the form for evaluation: without dropout, and with norms that use the
	// running statistics.
	Inference bool
	// Opset raises the version of ONNX's operators that the model imports, so that newer operators may
	// be used; 0 keeps it.
	Opset int64
	// FreezeInputs makes constants of initializers that are inputs of the graph, too, which callers
	// could replace: the inputs are removed. In files of IR version 3, where all initializers have to
	// be inputs, they always are constants.
	FreezeInputs bool
	// Growth is the number of bytes that a constant computed in advance may be larger than the
	// constants that it replaces. 0 means not larger.
	Growth int64
	// Threads compute constants; 0 means one per core.
	Threads int
}

// ErrTraining is wrapped by errors about graphs that have a backward half.
var ErrTraining = errors.New("it has a backward half, and passes for inference would change the " +
	"nodes of plans and configurations: take the forward model")

// Result is an optimized model and how it came about.
type Result struct {
	// Start is the model before the passes: with Options.Inference, the evaluated form. The
	// optimized model has the same outputs.
	Start  *memopt.Model
	Model  *memopt.Model
	Before edit.Size // of the model as it was given
	After  edit.Size
	Done   []Done      // in the order of the passes
	Left   []LeftAlone // nodes that could have been edited, and were not
	// Changes lists the effects of raising the operator set.
	Changes []string
	// Trains counts the nodes in training mode.
	Trains int
}

// Done says how often a pass has done something.
type Done struct {
	Pass  string
	What  string
	Exact bool
	Count int
}

// LeftAlone is a place that was not edited.
type LeftAlone struct {
	Pass string
	Node string
	Why  string
}

// Run optimizes a forward model. The model itself is not changed; its file must stay open as long as
// the result is used. The error wraps ErrTraining, or is an *memopt.Error.
func Run(ctx context.Context, m *memopt.Model, o Options) (*Result, error) {
	if err := Forward(m); err != nil {
		return nil, err
	}
	r := &Result{Start: m}
	var err error
	if r.Before, err = edit.SizeOf(m.Model); err != nil {
		return nil, err
	}
	if o.Inference {
		if r.Start, err = Evaluated(m); err != nil {
			return nil, err
		}
	}
	work := r.Start.Clone()
	if o.Opset != 0 {
		if r.Changes, err = autograd.Convert(work, o.Opset); err != nil {
			return nil, &memopt.Error{Fault: memopt.OfCaller, Err: fmt.Errorf("%s: %w", m.Path, err)}
		}
	}
	frozen := edit.Freeze(work, o.FreezeInputs)
	run := &run{ctx: ctx, o: o, m: work, r: r}
	if run.origins, err = roles.OriginsOf(m.Model); err != nil {
		return nil, &memopt.Error{Fault: memopt.OfModel, Err: fmt.Errorf("%s: %w", m.Path, err)}
	}
	if frozen > 0 {
		run.count("freeze", "inputs that are constants", true, frozen)
	}
	if err := run.passes(); err != nil {
		return nil, err
	}
	if r.Model, err = memopt.New(work, memopt.Options{Dims: m.Dims}); err != nil {
		return nil, &memopt.Error{Fault: memopt.OfMemopt, Err: err}
	}
	if err := roles.Carry(m.Model, r.Model.Model); err != nil {
		return nil, &memopt.Error{Fault: memopt.OfMemopt, Err: err}
	}
	r.Trains = training(r.Model.Model)
	r.After, err = edit.SizeOf(work)
	return r, err
}

// Forward returns an error that wraps ErrTraining if a model has a backward half.
func Forward(m *memopt.Model) error {
	_, err := live.FindBoundary(m.Model)
	switch {
	case errors.Is(err, live.ErrNoBoundary):
		return nil
	case err != nil:
		return &memopt.Error{Fault: memopt.OfModel, Err: fmt.Errorf("%s: %w", m.Path, err)}
	}
	return &memopt.Error{Fault: memopt.OfCaller, Err: fmt.Errorf("%s: %w", m.Path, ErrTraining)}
}

// Evaluated is the form of a model for evaluation. It lacks outputs that exist only in training, for
// example new running statistics.
func Evaluated(m *memopt.Model) (*memopt.Model, error) {
	g := m.Graph
	var outputs []string
	for _, d := range g.Outputs {
		v := &g.Values[d.Value]
		if v.Def != graph.NoNode && op.Of(g.Nodes[v.Def].Kind).Updated(int(v.DefSlot)) {
			continue
		}
		outputs = append(outputs, v.Name)
	}
	return m.Inference(outputs, nil)
}

// training counts the nodes of a graph that are in training mode.
func training(m *graph.Model) int {
	n := 0
	for _, node := range m.Graph.Nodes {
		if inTraining(m, node) {
			n++
		}
	}
	return n
}

// run is one optimization.
type run struct {
	ctx     context.Context
	o       Options
	m       *graph.Model
	r       *Result
	origins *roles.Origins // of the model as it was given
}

// count notes that a pass has done something.
func (r *run) count(pass, what string, exact bool, n int) {
	for i := range r.r.Done {
		if d := &r.r.Done[i]; d.Pass == pass && d.What == what {
			d.Count += n
			return
		}
	}
	r.r.Done = append(r.r.Done, Done{Pass: pass, What: what, Exact: exact, Count: n})
}

// leave notes why something was not edited, once.
func (r *run) leave(pass, node, why string) {
	l := LeftAlone{Pass: pass, Node: node, Why: why}
	for _, old := range r.r.Left {
		if old == l {
			return
		}
	}
	r.r.Left = append(r.r.Left, l)
}
