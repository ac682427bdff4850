// Package memopt makes training fit in memory. It takes an ONNX training graph from its file to a rewritten one
// that keeps fewer activations and recomputes the others, and executes both to prove equal numbers and the promised
// peak. For example:
//
//	m, err := memopt.Open("model.onnx", memopt.Options{Dims: map[string]int64{"batch": 8}})
//	m, _, err = m.Training(autograd.Options{}, nil) // differentiates a forward model
//	p, err := m.Plan(ctx, memopt.Budget{Share: 0.6}, memopt.PlanOptions{})
//	r, err := p.Rewrite(memopt.RewriteOptions{})
//	err = r.WriteFile("out.onnx", memopt.WriteOptions{})
//	x, err := r.Execution() // both graphs, on the same inputs
//	err = x.Fill(1)         // makes inputs up from seed 1
//	v, err := x.Verify(ctx, verify.Options{Engine: verify.On(cpu.Device{})}, verify.DefaultTolerance)
//
// Each step returns a value that the next one does not change, so one model can be planned in several ways, and one
// plan can be rewritten for several runtimes. A [Strategy] chooses the recomputed values of a plan; a
// [verify.Engine], which is a device or ONNX Runtime, executes, and can also be driven one step at a time. The
// results have the types of the packages that do the work: graph, planner, recompute, executor/verify; see their
// documentation.
//
// A context ends searches, which then return the best plan so far, and executions. Budget.Found is called for the
// first plan that fits, verify.Options.Progress for finished steps, and Options.Warn for faults of a file. No
// function prints.
//
// The program cmd/memopt adds flags, exit codes and printing; ARCHITECTURE.md is a map of the packages.
package memopt

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/memlimit"
	"memopt/sim/xla"
	"memopt/symbolic"
)

// Options are the options of reading a model. The zero value is valid.
type Options struct {
	// Dims binds symbols of the model to sizes; symbols that the model does not have are ignored. Unless all are
	// bound, bytes are formulas, and operations that need numbers fail with a *symbolic.UnboundError.
	Dims map[string]int64
	// Apart are symbols that stand for sizes of their own, as those in Dims do: see Model.Equal.
	Apart []string
	// Strict rejects nodes that contradict their operators' definitions.
	Strict bool
	// States are pairs IN=OUT of an input or initializer and the output that is its next value, in
	// addition to those that the model's metadata, operators and names reveal (live.FindStates).
	States []string
	// Warn is called with one line for each thing that is wrong with the file; it may be nil.
	Warn func(text string)
	// Opened is called with the model as it was read, before anything is done with it, and with the
	// files that stay open for its contents; an error from it ends the reading. It may be nil.
	Opened func(m *graph.Model, files []string) error
}

// Model is an ONNX model, ready for planning and running: calls of its functions are inlined, the
// types of all values inferred.
type Model struct {
	*graph.Model
	Types *op.Result
	Dims  symbolic.Env // the bindings of symbols; never nil
	// Equal has symbols that the file's exporter made up, and that the model has no more, each with
	// the one of an earlier input that stands for both: op.Result.EqualSizes says when.
	// Symbols that Options.Dims or Options.Apart names are not among them.
	Equal map[string]string
	// StructureSHA256 is the hash of the model as it was read, without the contents of tensors.
	StructureSHA256 string
	// Compiled is the program that XLA compiled, of a model that was read from HLO, which is planned and not executed;
	// nil otherwise.
	Compiled *xla.Program
	labels   []string // the symbols of the file's own types, sorted
	close    func() error
}

// Open reads a model's file: ONNX, or a program of XLA (HLO). Weights stay in the file and are read when they are
// used; the caller closes the model afterwards. The error is an *onnx.FormatError if the file is not a model, or an
// *Error.
func Open(path string, o Options) (*Model, error) {
	if c, err := openCompiled(path, o); c != nil || err != nil {
		return c, err
	}
	m, opened, err := onnx.Open(path)
	if err != nil {
		return nil, readError(err)
	}
	out, err := prepare(path, m, nil, opened.External(), o)
	if err != nil {
		opened.Close()
		return nil, err
	}
	out.close = opened.Close
	return out, nil
}

// Read reads a model from a stream; name stands for it in messages.
func Read(r io.Reader, name string, o Options) (*Model, error) {
	c, r, err := readCompiled(r, name, o)
	if c != nil || err != nil {
		return c, err
	}
	m, err := onnx.Read(r, name)
	if err != nil {
		return nil, readError(err)
	}
	return prepare(name, m, nil, nil, o)
}

// New prepares a model that was made in memory, which it edits in place.
func New(m *graph.Model, o Options) (*Model, error) { return prepare(m.Path, m, nil, nil, o) }

// ExamplePrefix begins the paths of built-in models.
const ExamplePrefix = examples.Prefix

// Example makes a built-in model, such as "mlp"; package examples lists them. Its symbols are
// bound; Options.Dims binds them otherwise.
func Example(name string, o Options) (*Model, error) {
	path := ExamplePrefix + name
	ex, ok := examples.Lookup(name)
	if !ok {
		return nil, &Error{OfCaller, fmt.Errorf("%s: there is no such example", path)}
	}
	m, err := ex.Build()
	if err != nil {
		return nil, &Error{OfMemopt, fmt.Errorf("%s: %w", path, err)}
	}
	m.Path = path
	return prepare(path, m, ex.Dims, nil, o)
}

// prepare makes a model that was read ready for analysis.
func prepare(name string, read *graph.Model, dims map[string]int64, files []string,
	o Options) (*Model, error) {
	if o.Opened != nil {
		if err := o.Opened(read, files); err != nil {
			return nil, err
		}
	}
	m := &Model{Model: read, Dims: symbolic.Env{}, close: func() error { return nil },
		StructureSHA256: onnx.StructureSHA256(read), labels: symbols(read.Graph)}
	maps.Copy(m.Dims, dims)
	maps.Copy(m.Dims, o.Dims)
	if err := graph.RunPasses(read, m.passes(o.Strict)...); err != nil {
		return nil, &Error{OfModel, fmt.Errorf("%s: %w", name, err)}
	}
	if err := m.equate(o); err != nil {
		return nil, &Error{OfModel, fmt.Errorf("%s: %w", name, err)}
	}
	if err := m.addStates(o.States); err != nil {
		return nil, &Error{OfCaller, fmt.Errorf("%s: %w", name, err)}
	}
	if o.Warn != nil {
		m.warn(o.Warn)
	}
	return m, nil
}

// addStates records the states of a training step that the caller names. One whose input or output
// is in another one already takes its place.
func (m *Model) addStates(texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	known, err := live.Pairs(m.Model)
	if err != nil {
		return err
	}
	for _, text := range texts {
		p, err := live.ParseStatePair(text, func(p live.StatePair) bool {
			_, in := m.Graph.Lookup(p.Input)
			_, out := m.Graph.Lookup(p.Output)
			return in && out
		})
		if err != nil {
			return err
		}
		known = append(slices.DeleteFunc(known, func(old live.StatePair) bool {
			return old.Input == p.Input && old.Output != p.Output ||
				old.Output == p.Output && old.Input != p.Input
		}), p)
	}
	live.RecordStates(m.Model, known)
	_, err = live.FindStates(m.Model)
	return err
}

// passes is the list of edits before analysis, in order.
func (m *Model) passes(strict bool) []graph.Pass {
	return []graph.Pass{
		{Name: "inline", Run: op.InlineFunctions,
			Doc: "calls of model-local functions become their bodies: analyses see operators only"},
		{Name: "fold", Run: op.FoldConditions,
			Doc: "an If that always takes the same branch becomes that branch; the other one may " +
				"contradict the shapes"},
		{Name: "split", Run: op.SplitSequences,
			Doc: "sequences whose tensors all have known places become outputs of Split, which has a gradient"},
		{Name: "scan", Run: op.ScanSequences,
			Doc: "sequences that a Loop fills become its scan outputs, which have a gradient"},
		{Name: "infer", Doc: "types of all values; needs operators in place of calls",
			Run: func(*graph.Model) (bool, error) { return false, m.infer(strict) }},
	}
}

// infer infers the types of all values.
func (m *Model) infer(strict bool) (err error) {
	infer := op.InferAsIs
	if strict {
		infer = op.Infer
	}
	m.Types, err = infer(m.Model)
	return err
}

// exportedSymbol matches symbols that PyTorch's exporters make up where the caller gives no names,
// one for each dim of each input: s72 of torch.export, and input_ids_dynamic_axes_1 of TorchScript.
var exportedSymbol = regexp.MustCompile(`^s\d+$|_dynamic_axes_\d+$`)

// equate puts one symbol in place of those that stand for one size.
func (m *Model) equate(o Options) error {
	m.Equal = m.Types.EqualSizes(m.Graph, exportedSymbol.MatchString, func(s string) bool {
		_, bound := m.Dims[s]
		return bound || slices.Contains(o.Apart, s)
	})
	if len(m.Equal) == 0 {
		return nil
	}
	op.Rename(m.Graph, m.Equal)
	return m.infer(o.Strict)
}

// Close closes the model's file, for models that were made from this one, too.
func (m *Model) Close() error { return m.close() }

// Symbols lists the symbols in the types of all values, sorted: those that Options.Dims can bind.
func (m *Model) Symbols() []string { return symbols(m.Graph) }

// HasLabel reports whether the file uses a symbol that inference may have replaced by a number or another
// expression, so that binding it has no effect.
func (m *Model) HasLabel(symbol string) bool {
	_, found := slices.BinarySearch(m.labels, symbol)
	return found
}

// symbols lists the symbols in the types of a graph, sorted.
func symbols(g *graph.Graph) []string {
	seen := map[string]bool{}
	for i := range g.Values {
		for _, d := range g.Values[i].Type.Shape.Dims {
			d.VisitSymbols(func(s string) { seen[s] = true })
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Training returns the training step that Differentiate makes of a forward model; the second result lists the
// guesses. A model that has a backward half is its own training step, and the second result is nil. Errors are
// those of Differentiate.
func (m *Model) Training(o autograd.Options, update *autograd.Optimizer) (step *Model,
	how *autograd.Joint, err error) {
	if _, err := live.FindBoundary(m.Model); !errors.Is(err, live.ErrNoBoundary) {
		return m, nil, nil // the planner reports its faults
	}
	step, how, err = m.Differentiate(o, update)
	if err != nil {
		return nil, nil, fmt.Errorf("a forward model: %w", err)
	}
	return step, how, nil
}

// Differentiate makes a training graph from a forward model, and appends the update of its
// parameters unless the optimizer is nil. The model itself is not changed. The errors are those of
// autograd.Differentiate, and an *Error for an invalid optimizer.
func (m *Model) Differentiate(o autograd.Options, update *autograd.Optimizer) (*Model,
	*autograd.Joint, error) {
	j, err := autograd.Differentiate(m.Model, o)
	if err != nil {
		return nil, nil, err
	}
	if update != nil {
		if err := autograd.AppendOptimizer(j, *update); err != nil {
			return nil, nil, &Error{OfCaller, err}
		}
	}
	return m.step(j), j, nil
}

// Accumulate makes the two steps of training in micro-batches: the micro-step, which Differentiate makes if
// Options.Accumulate is set, and the update that applies the accumulated gradients (autograd.UpdateStep). Both read
// and write the states that they share under the same names. The errors are those of Differentiate.
func (m *Model) Accumulate(o autograd.Options, update autograd.Optimizer) (micro, apply *Model,
	how *autograd.Joint, err error) {
	o.Accumulate = true
	if micro, how, err = m.Differentiate(o, nil); err != nil {
		return nil, nil, nil, err
	}
	j, err := autograd.UpdateStep(how, update)
	if err != nil {
		return nil, nil, nil, &Error{OfCaller, err}
	}
	how.Shards = j.Shards
	return micro, m.step(j), how, nil
}

// Combine makes the step of each of several ranks between the last micro-step and the update that
// Accumulate made (autograd.CombineStep).
func (m *Model) Combine(how *autograd.Joint, r autograd.Ranks) (*Model, error) {
	j, err := autograd.CombineStep(how, r)
	if err != nil {
		return nil, &Error{OfCaller, err}
	}
	return m.step(j), nil
}

// UpdateOptions are the options of Updating.
type UpdateOptions struct {
	Optimizer autograd.Optimizer
	// Freeze are globs of parameters that are not updated.
	Freeze []string
	// LossScale names the input with the factor that the gradients have been multiplied by; "" means that they are
	// not scaled.
	LossScale string
	// Accumulate makes two steps, as Model.Accumulate does.
	Accumulate bool
	// Weigh makes the gradients of a batch count as much as its loss does among those of others (autograd.Weights).
	Weigh bool
}

// Updating returns training steps that update parameters, for a model that has a backward half: the update is
// appended to its gradients (autograd.FromGradients) or, with Accumulate, is a step of its own, apply. A model that
// updates its parameters already is returned unchanged; then neither Freeze nor Accumulate can be obeyed. The
// errors are those of FromGradients and an *Error.
func (m *Model) Updating(o UpdateOptions) (step, apply *Model, how *autograd.Joint, err error) {
	j, err := autograd.FromGradients(m.Model)
	if errors.Is(err, autograd.ErrNoGradients) {
		if own, e := autograd.FromStep(m.Model); e == nil {
			if o.Accumulate || len(o.Freeze) > 0 {
				return nil, nil, nil, &Error{OfCaller, fmt.Errorf("%s: updates its parameters itself: "+
					"neither can some be frozen nor gradients be accumulated; take the forward model", m.Path)}
			}
			return m.step(own), nil, own, nil
		}
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", m.Path, err)
	}
	if j.LossScale == "" && j.LossGrad != "" {
		j.LossScale = o.LossScale
	}
	if len(o.Freeze) > 0 {
		if err := autograd.Freeze(j, o.Freeze); err != nil {
			return nil, nil, nil, &Error{OfCaller, err}
		}
	}
	if o.Weigh {
		if err := autograd.WeighGradients(j); err != nil {
			return nil, nil, nil, &Error{OfCaller, err}
		}
	}
	if !o.Accumulate {
		if err := autograd.AppendOptimizer(j, o.Optimizer); err != nil {
			return nil, nil, nil, &Error{OfCaller, err}
		}
		return m.step(j), nil, j, nil
	}
	if err := autograd.AccumulateGradients(j); err != nil {
		return nil, nil, nil, &Error{OfCaller, err}
	}
	u, err := autograd.UpdateStep(j, o.Optimizer)
	if err != nil {
		return nil, nil, nil, &Error{OfCaller, err}
	}
	j.Shards = u.Shards
	return m.step(j), m.step(u), j, nil
}

// Inference returns the form of the model for evaluation (autograd.Inference). The model itself is not changed.
func (m *Model) Inference(outputs, inputs []string) (*Model, error) {
	g, types, err := autograd.Inference(m.Model, outputs, inputs)
	if err != nil {
		return nil, &Error{OfModel, fmt.Errorf("%s: the form for evaluation: %w", m.Path, err)}
	}
	return m.step(&autograd.Joint{Model: g, Types: types}), nil
}

// Weigh adds to a copy of the model an output with the weight of its loss among those of other batches
// (autograd.Weigh). params names inputs that are no data.
func (m *Model) Weigh(loss string, params []string) (*Model, autograd.Weights, error) {
	g := m.Model.Clone()
	w, types, err := autograd.Weigh(g, loss, params)
	if err != nil {
		return nil, w, &Error{OfModel, fmt.Errorf("%s: the form for evaluation: %w", m.Path, err)}
	}
	return m.step(&autograd.Joint{Model: g, Types: types}), w, nil
}

// step is a training step made of the model.
func (m *Model) step(j *autograd.Joint) *Model {
	j.Model.Path = m.Path // external data lies next to it, and it must not be overwritten
	step := *m
	step.Model, step.Types = j.Model, j.Types
	return &step
}

// readError says whose fault it is that a model could not be read.
func readError(err error) error {
	var format *onnx.FormatError
	if errors.As(err, &format) || errors.Is(err, memlimit.ErrOutOfMemory) {
		return err
	}
	return &Error{OfCaller, err}
}
