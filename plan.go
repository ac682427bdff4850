package memopt

import (
	"context"
	"fmt"

	"memopt/configs"
	"memopt/executor"
	"memopt/planner"
	"memopt/recompute"
)

// PlanOptions says what to recompute and what it is planned for. The zero value recomputes nothing:
// its plan lists what could be. Level, Config, Placements or Budget choose; Dims are the model's.
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
func (m *Model) Plan(ctx context.Context, o PlanOptions) (*Plan, error) {
	o.Dims = m.Dims
	if o.Budget != nil && o.Device != nil {
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

// Pareto plans for so many budgets, from the lowest peak that can be reached to none at all. A
// context that is done ends the curve where it is.
func (m *Model) Pareto(ctx context.Context, o PlanOptions, budgets int) (*planner.Curve, error) {
	o.Dims = m.Dims
	return planner.Pareto(ctx, m.Model, m.Types, o.Options, budgets)
}

// UsePlan has the options take the placements and the order of a plan file, which must have been
// made for a model of the same structure. The error is the file's.
func (m *Model) UsePlan(o *PlanOptions, path string) error {
	r, err := configs.LoadPlan(path)
	if err != nil {
		return err
	}
	if r.StructureSHA256 != m.StructureSHA256 {
		return fmt.Errorf("%s: was made for a model with structure_sha256 %.12s…, this one has "+
			"%.12s…; plan anew", path, r.StructureSHA256, m.StructureSHA256)
	}
	if o.Placements, err = recompute.ResolvePlacements(m.Graph, r.Placements); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if o.Placements == nil {
		o.Placements = []recompute.Placement{}
	}
	if o.FixedOrder, err = recompute.ResolveOrder(m.Graph, r.Order); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Record returns the plan as plan files and the metadata of rewritten models have it. The seed is
// that of the random nodes, of which a rewrite writes down what they draw.
func (p *Plan) Record(seed int64) *recompute.Record {
	return p.Plan.Record(p.Of.StructureSHA256, seed)
}

// File returns the plan as a plan file, for UsePlan.
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
	o.Level, o.Probe, o.RowPeaks, o.SkipLayout, o.Budget = planner.Layerwise, nil, false, true, nil
	return planner.Make(p.Of.Model, p.Of.Types, o)
}
