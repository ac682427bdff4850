package memopt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/memlimit"
	ortsim "memopt/sim/ort"
	"memopt/symbolic"
)

// Execution is a graph and its rewritten form, to be executed on the same inputs.
type Execution struct {
	Of        *Model
	Plan      *Plan      // nil without a plan
	Moving    *Moving    // the plan whose recomputations alone Plan has; nil where no values move
	Rewritten *Rewritten // nil without a rewrite
	// Baseline is the unchanged graph, Planned the rewritten one; they are the same without a
	// rewrite.
	Baseline, Planned verify.Side
	// Data holds given inputs and expected outputs; nil means that there are none.
	Data *dataset.Set
	// Inputs are by name and include those of Data. Fill generates the others.
	Inputs map[string]*executor.Tensor
}

// Bind binds the model's symbols to the dims of inputs. The error names an input that contradicts
// its declaration, a binding or another input.
func (m *Model) Bind(inputs map[string]*executor.Tensor) error {
	values := make([]*executor.Tensor, len(m.Graph.Values))
	for name, t := range inputs {
		if id, ok := m.Graph.Lookup(name); ok {
			values[id] = t
		}
	}
	dims, err := executor.BindDims(m.Graph, values, m.Dims)
	if err != nil {
		return &Error{OfCaller, err}
	}
	m.Dims = dims
	return nil
}

// Execution prepares the unchanged model for execution.
func (m *Model) Execution() *Execution {
	side := verify.Side{Model: m.Model, Types: m.Types, Dims: m.Dims}
	return &Execution{Of: m, Baseline: side, Planned: side, Inputs: map[string]*executor.Tensor{}}
}

// Execution prepares the unchanged model for execution, in the order of the plan, or of its
// Baseline; with a Session, in the order that ORTModule runs it in, that of the file.
func (p *Plan) Execution() *Execution {
	x := p.Of.Execution()
	x.Plan, x.Baseline.Order = p, p.Baseline().Analysis.Order
	if p.Session != nil {
		x.Baseline.Order = graph.FileOrder(p.Of.Graph)
	}
	x.Planned = x.Baseline
	return x
}

// Execution prepares both graphs for execution. Random nodes of the baseline get the seeds that the
// rewrite fixed, so that both graphs draw the same numbers.
func (r *Rewritten) Execution() (*Execution, error) {
	m, parts := r.By.Of, r.By.Plan
	types, err := op.InferAsIs(r.Model)
	if err == nil && types.Opaque(r.Model.Graph) > parts.Types.Opaque(parts.Model.Graph) {
		err = fmt.Errorf("%w", types.Deviations[len(types.Deviations)-1].Why)
	}
	if err != nil {
		return nil, &Error{OfMemopt, fmt.Errorf("%s: the rewritten graph: %w", m.Path, err)}
	}
	x := r.By.Execution()
	x.Rewritten = r
	if x.Baseline.Model = r.whole; r.whole == nil {
		x.Baseline.Model = r.seedAlike(m.Model)
	}
	x.Planned = verify.Side{Model: r.Model, Types: types, Order: graph.FileOrder(r.Model.Graph),
		Dims: m.Dims}
	if a := r.Anchoring; a != nil && a.Simulated { // the simulation knows which shapes the file leaves open
		x.Planned.Simulated = &ortsim.Peaks{Live: a.Anchored, Arena: a.AnchoredArena}
	}
	return x, nil
}

// Execution prepares both graphs for execution.
func (p *Moving) Execution() (*Execution, error) {
	x, err := p.Rewritten.Execution()
	if err != nil {
		return nil, err
	}
	x.Moving = p
	return x, nil
}

// seedAlike returns the old model with the seeds that its random nodes were given.
func (r *Rewritten) seedAlike(old *graph.Model) *graph.Model {
	if len(r.Seeded) == 0 {
		return old
	}
	m := old.Clone()
	for i, origin := range r.Origin {
		if slices.Contains(r.Seeded, origin) {
			op.SeedAlike(m.Graph.Nodes[origin], r.Model.Graph.Nodes[i])
		}
	}
	return m
}

// Labels returns, by node of the rewritten graph, the label of the node that its times count for, if
// that differs from its own label, else "": for a clone, that of its original, which is a part in a
// chunked graph.
func (r *Rewritten) Labels() []string {
	labels := make([]string, len(r.Origin))
	for i, old := range r.Origin {
		if old == graph.NoNode {
			continue
		}
		label := r.By.Model.Graph.NodeLabel(old)
		if label != r.Model.Graph.NodeLabel(graph.NodeID(i)) {
			labels[i] = label
		}
	}
	return labels
}

// Against replaces the planned graph by that of another model.
func (x *Execution) Against(other *Execution) { x.Planned = other.Planned }

// Changed reports whether the planned graph differs from the baseline.
func (x *Execution) Changed() bool { return x.Baseline.Model != x.Planned.Model }

// Give sets inputs and expected outputs.
func (x *Execution) Give(data *dataset.Set) {
	x.Data = data
	for name, t := range data.Inputs {
		x.Inputs[name] = t
	}
}

// Unfed lists the inputs that neither the model nor Data has values for. The error is a
// *symbolic.UnboundError if symbols in the inputs' shapes are unbound.
func (x *Execution) Unfed() ([]graph.ValueID, error) {
	g := x.Of.Graph
	var unfed []graph.ValueID
	var unbound []string
	origins := map[string]string{}
	for _, d := range g.Inputs {
		for i, dim := range d.Type.Shape.Dims {
			dim.VisitSymbols(func(s string) {
				if _, ok := x.Of.Dims[s]; ok {
					return
				}
				unbound = append(unbound, s)
				if origins[s] == "" && !dim.Equal(symbolic.Sym(s)) {
					origins[s] = x.derived(d.Value, i, dim)
				}
			})
		}
		v := &g.Values[d.Value]
		if v.Data == nil && (x.Data == nil || x.Data.Inputs[v.Name] == nil) {
			unfed = append(unfed, d.Value)
		}
	}
	if len(unbound) > 0 {
		slices.Sort(unbound)
		err := &symbolic.UnboundError{Symbols: slices.Compact(unbound), Origins: origins}
		return nil, fmt.Errorf("%s: %w", x.Of.Path, err)
	}
	return unfed, nil
}

// derived says which input determines a symbol that the data do not give, because its dim cannot be
// solved for it.
func (x *Execution) derived(input graph.ValueID, axis int, dim symbolic.Expr) string {
	name := x.Of.Graph.Values[input].Name
	text := fmt.Sprintf("is in dim %d of input %q, %q", axis, name, dim)
	if t := x.Inputs[name]; t != nil && axis < t.Rank() {
		text += fmt.Sprintf(", which is %d in the data: not one size alone gives that", t.Shape[axis])
	}
	return text
}

// Fill generates the inputs that have no data, according to their role: scales of norms are 1,
// indices lie within the table that they index, weights are normally distributed with standard
// deviation 0.02. The errors are those of Unfed, and errors that wrap executor.ErrOutOfMemory.
func (x *Execution) Fill(seed uint64) error {
	unfed, err := x.Unfed()
	if err != nil {
		return err
	}
	g := x.Of.Graph
	for _, v := range unfed {
		delete(x.Inputs, g.Values[v].Name) // of the previous set, which must not take memory in addition
	}
	filler := dataset.NewFiller(g, x.Of.Dims, seed)
	filler.BeginAtZero(live.OptimizerStates(x.Of.Model))
	err = filler.Check(unfed)
	for i := 0; i < len(unfed) && err == nil; i++ {
		x.Inputs[g.Values[unfed[i]].Name], err = filler.Fill(unfed[i])
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", x.Of.Path, err)
	if errors.Is(err, memlimit.ErrOutOfMemory) {
		return err
	}
	return &Error{OfCaller, err}
}

// Expected lists the outputs that Data expects.
func (x *Execution) Expected() []verify.Output {
	if x.Data == nil {
		return nil
	}
	var want []verify.Output
	for i, d := range x.Of.Graph.Outputs {
		if t, ok := x.Data.Outputs[i]; ok {
			want = append(want, verify.Output{Name: x.Of.Graph.Values[d.Value].Name, Tensor: t.Tensor})
		}
	}
	return want
}

// Run executes the planned graph on Options.Engine and reports the steps to Options.Progress.
func (x *Execution) Run(ctx context.Context, o verify.Options) (*verify.Run, error) {
	return verify.Execute(ctx, x.Planned, x.Inputs, o)
}

// Verify executes both graphs, alternating their measured steps, and compares every output.
// [verify.Run.Above] tells whether the measured peak of either keeps the promise.
func (x *Execution) Verify(ctx context.Context, o verify.Options,
	within verify.Tolerance) (*verify.Verdict, error) {
	return verify.Verify(ctx, x.Baseline, x.Planned, x.Inputs, o, within)
}
