package memopt

import (
	"context"

	"memopt/configs"
	"memopt/executor"
	"memopt/planner"
	"memopt/recompute"
)

// PlanOptions says for what a plan is made; the zero value will do. Dims are the model's, and the
// strategy is the one that Model.Plan is given.
type PlanOptions struct {
	planner.Options
	// Device is what a plan to a budget is for: the workspace of its kernels counts. nil: none does.
	Device  executor.Device
	Threads int // of the device, on which workspace may depend; 0: one per core
}

// Plan is what to recompute in a model, and what it is worth.
type Plan struct {
	*planner.Plan
	Of *Model
}

// Plan plans a training graph. A context that is done ends the search for a plan to a budget with
// the best plan so far; Budget.Found is told when there is a first one. The error is
// live.ErrNoBoundary for a model without a backward half, a *planner.UnfitError where nothing fits
// the budget, a *symbolic.UnboundError where sizes are needed that no binding gives.
func (m *Model) Plan(ctx context.Context, s Strategy, o PlanOptions) (*Plan, error) {
	o.Dims, o.Strategy = m.Dims, s
	if o.Options.Budget() != nil && o.Device != nil {
		var err error
		o.Workspace, err = executor.Workspaces(ctx, m.Model, m.Types, o.Device,
			executor.Options{Dims: m.Dims, Threads: o.Threads})
		if err != nil {
			return nil, err
		}
	}
	p, err := planner.MakeContext(ctx, m.Model, m.Types, o.Options)
	if err != nil {
		return nil, err
	}
	return &Plan{p, m}, nil
}

// Pareto plans for so many budgets, from the lowest peak that can be reached to none at all. The
// budget says how to search. A context that is done ends the curve where it is.
func (m *Model) Pareto(ctx context.Context, b Budget, o PlanOptions,
	n int) (*planner.Curve, error) {
	o.Dims, o.Strategy = m.Dims, b
	return planner.Pareto(ctx, m.Model, m.Types, o.Options, n)
}

// Record returns the plan as plan files and the metadata of rewritten models have it. The seed is
// that of the random nodes, of which a rewrite writes down what they draw.
func (p *Plan) Record(seed int64) *recompute.Record {
	return p.Plan.Record(p.Of.StructureSHA256, seed)
}

// File returns the plan as a plan file, for Model.PlanFile.
func (p *Plan) File(seed int64) ([]byte, error) {
	data, err := configs.FormatPlan(p.Record(seed))
	if err != nil {
		return nil, &Error{OfMemopt, err}
	}
	return data, nil
}

// Layerwise plans level 1 of the same model in the same way: what a plan is shown beside.
func (p *Plan) Layerwise() (*planner.Plan, error) {
	o := p.Options
	o.Strategy, o.Probe, o.SkipLayout = planner.Layerwise, nil, true
	o.RowPeaks, o.Alternatives = false, false
	return planner.Make(p.Of.Model, p.Of.Types, o)
}
