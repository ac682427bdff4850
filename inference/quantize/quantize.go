package quantize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"memopt"
	"memopt/graph"
	"memopt/hint"
	"memopt/inference/edit"
	"memopt/inference/optimize"
)

// Options of Run. The zero value quantizes to uint8, with a scale per tensor.
type Options struct {
	Signed      bool // int8 weights, symmetric; else uint8, with a zero point
	PerChannel  bool // a scale for each column of a product's weight and each row of an embedding
	ReduceRange bool // weights of 7 bits
	// Exclude are globs of names of nodes, operators and weights that stay as they are.
	Exclude []string
	// Prepare has the options of the passes that run first: those that keep all bits let weights be
	// recognised. Exact and Growth are set.
	Prepare optimize.Options
}

// leastOpset is the operator set that DynamicQuantizeLinear came with.
const leastOpset = 11

// ErrNothing is wrapped by the error about a model without weights that can be quantized.
var ErrNothing = errors.New("no weight can be quantized")

// Result is a quantized model and how it came about.
type Result struct {
	Start   *memopt.Model // the model in floats, optimize.Result.Start
	Model   *memopt.Model
	Before  edit.Size // of the model as it was given
	After   edit.Size
	Weights []Weight    // in the order of the file
	Left    []LeftAlone // nodes with constant weights that stay as they are
	// Changes lists the effects of raising the operator set.
	Changes []string
}

// Weight is a quantized weight.
type Weight struct {
	Name       string
	Dims       []int64
	Nodes      []string // that read it
	PerChannel bool
	Bytes      int64   // before
	Quantized  int64   // after, scales and zero points included
	MaxError   float64 // the largest difference between an element and the number of its integer
	MaxAbs     float64 // the largest absolute element
}

// LeftAlone is a node that stays as it is.
type LeftAlone struct {
	Node, Op, Weight, Why string
}

// Run quantizes a forward model. The model itself is not changed; its file must stay open as long as
// the result is used. The error wraps optimize.ErrTraining or ErrNothing, or is an *memopt.Error.
func Run(ctx context.Context, m *memopt.Model, o Options) (*Result, error) {
	p := o.Prepare
	p.Exact, p.Growth = true, 0
	prepared, err := optimize.Run(ctx, m, p)
	if err != nil {
		return nil, err
	}
	if v := prepared.Model.OpsetVersion(""); v < leastOpset {
		return nil, &memopt.Error{Fault: memopt.OfCaller, Err: fmt.Errorf("%s: imports operator set %d of ONNX, and "+
			"DynamicQuantizeLinear came with %d: raise it with %v or a newer one", m.Path, v, leastOpset,
			hint.Opset.With(strconv.Itoa(leastOpset)))}
	}
	r := &Result{Start: prepared.Start, Before: prepared.Before, Changes: prepared.Changes}
	work := prepared.Model.Model.Clone()
	e, err := edit.New(work)
	if err != nil {
		return nil, err
	}
	q := &quantizer{Editor: e, o: o, r: r, m: work, inputs: map[graph.ValueID]*dynamic{}}
	if err := q.weights(); err != nil {
		return nil, err
	}
	if len(r.Weights) == 0 {
		return nil, &memopt.Error{Fault: memopt.OfCaller, Err: fmt.Errorf("%s: %w: %w", m.Path, ErrNothing, r.why())}
	}
	pass := graph.Pass{Name: "quantize", Run: func(*graph.Model) (bool, error) { return e.Finish() }}
	if err := graph.RunPasses(work, pass); err != nil {
		return nil, &memopt.Error{Fault: memopt.OfMemopt, Err: fmt.Errorf("%s: %w", m.Path, err)}
	}
	if r.Model, err = memopt.New(work, memopt.Options{Dims: m.Dims}); err != nil {
		return nil, &memopt.Error{Fault: memopt.OfMemopt, Err: err}
	}
	r.After, err = edit.SizeOf(work)
	return r, err
}

// why returns the reason why no weight was quantized.
func (r *Result) why() error {
	if len(r.Left) == 0 {
		return fmt.Errorf("it has no MatMul, Gemm or Gather of a constant weight; weights that are inputs without "+
			"data, and those that callers can replace (%v), do not count", hint.FreezeInputs)
	}
	l := r.Left[0]
	text := fmt.Sprintf("node %q (%s) stays as it is: %s", l.Node, l.Op, l.Why)
	if n := len(r.Left) - 1; n > 0 {
		text += fmt.Sprintf("; so do %d others", n)
	}
	return errors.New(text)
}

// quantizer is a quantization under way.
type quantizer struct {
	*edit.Editor
	o      Options
	r      *Result
	m      *graph.Model
	inputs map[graph.ValueID]*dynamic // the quantized inputs of the graph
}

// weights quantizes all weights that can be quantized.
func (q *quantizer) weights() error {
	for _, v := range slices.Clone(q.G.Initializers) {
		uses := q.usesOf(v)
		if len(uses) == 0 {
			continue
		}
		if why := q.refusal(v, uses); why != "" {
			q.leave(v, uses, why)
			continue
		}
		if err := q.quantize(v, uses); err != nil {
			return fmt.Errorf("%s: weight %q: %w", q.m.Path, q.G.ValueName(v), err)
		}
	}
	return nil
}

// leave notes that the readers of a weight stay as they are.
func (q *quantizer) leave(v graph.ValueID, uses []use, why string) {
	for _, u := range uses {
		if u.role == nil {
			continue
		}
		l := LeftAlone{Node: q.G.NodeLabel(u.node.ID), Op: u.node.Op, Weight: q.G.ValueName(v), Why: why}
		if q.excluded(u, v) {
			l.Why = "it is excluded"
		}
		q.r.Left = append(q.r.Left, l)
	}
}
