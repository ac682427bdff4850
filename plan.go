package memopt

import (
	"context"
	"errors"

	"memopt/configs"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/envelope"
	"memopt/recompute"
	"memopt/symbolic"
)

// PlanOptions describe the device and the limits of a plan; the zero value is valid. Dims are the model's, and
// the strategy is the argument of Model.Plan.
type PlanOptions struct {
	planner.Options
	// Device is the device that a plan is for: the workspaces of its kernels count. With nil, and where
	// symbols that sizes depend on are unbound, no workspaces count.
	Device  executor.Device
	Threads int // of the device, whose workspace may depend on it; 0 means one per core
}

// Plan is the recomputations of a model, with their memory and cost.
type Plan struct {
	*planner.Plan
	Of *Model
}

// Plan plans a training graph. A context that is done ends the search for a budget with the best plan so far, and
// its deadline bounds all searches together; Budget.Found is called for the first plan that fits. The error is
// live.ErrNoBoundary for a model without a backward half, a *planner.InfeasibleError for an infeasible budget, or
// a *symbolic.UnboundError if sizes are needed but symbols are unbound.
func (m *Model) Plan(ctx context.Context, s Strategy, o PlanOptions) (*Plan, error) {
	if err := o.complete(ctx, m, s); err != nil {
		return nil, err
	}
	p, err := planner.MakeContext(ctx, m.Model, m.Types, o.Options)
	if err != nil {
		return nil, err
	}
	return &Plan{p, m}, nil
}

// complete adds a strategy, and the facts about the model that plans need.
func (o *PlanOptions) complete(ctx context.Context, m *Model, s Strategy) error {
	o.Dims, o.Strategy = m.Dims, s
	if err := o.addWorkspaces(timelimit.Without(ctx), m); err != nil {
		return err
	}
	if o.Workspace != nil && o.Device != nil {
		o.WorkspaceOf = func(ctx context.Context, parts *graph.Model, types *op.Result) ([]int64, error) {
			return executor.Workspaces(timelimit.Without(ctx), parts, types, o.Device,
				executor.Options{Dims: m.Dims, Threads: o.Threads})
		}
	}
	return nil
}

// addWorkspaces asks the device for the workspaces of its kernels, unless the caller knows them.
func (o *PlanOptions) addWorkspaces(ctx context.Context, m *Model) error {
	if o.Device == nil || o.Workspace != nil {
		return nil
	}
	w, err := executor.Workspaces(ctx, m.Model, m.Types, o.Device, executor.Options{Dims: m.Dims, Threads: o.Threads})
	var unbound *symbolic.UnboundError
	if errors.As(err, &unbound) {
		return nil // the plan reports them if it needs sizes
	}
	o.Workspace = w
	return err
}

// PlanSpan plans for all sizes of ranges at once (planner.MakeSpan): one set of placements that keeps
// within a budget of bytes at every size. Symbols without a range are the model's Dims. The options
// must have no device.
func (m *Model) PlanSpan(ctx context.Context, b Budget, o PlanOptions,
	ranges map[string]symbolic.Range) (*Plan, error) {
	if o.Device != nil {
		return nil, errSpanDevice
	}
	box, err := envelope.NewBox(ranges)
	if err != nil {
		return nil, &Error{OfCaller, err}
	}
	o.Dims, o.Strategy = m.Dims, b
	p, err := planner.MakeSpan(ctx, m.Model, m.Types, o.Options, box)
	if err != nil {
		return nil, err
	}
	return &Plan{p, m}, nil
}

// Bands are plans for sizes of one symbol that differ from step to step; see planner.Bands.
type Bands struct {
	*planner.Bands
	Of *Model
}

// PlanBands makes at most so many plans for the sizes of a symbol that a histogram has, so that a share of the steps
// (the quantile) is within the budget, in bytes; see planner.MakeBands. The model is bound without that symbol.
func (m *Model) PlanBands(ctx context.Context, b Budget, o PlanOptions, h *planner.Histogram, most int,
	quantile float64) (*Bands, error) {
	if o.Device != nil {
		return nil, errSpanDevice
	}
	o.Dims, o.Strategy = m.Dims, b
	found, err := planner.MakeBands(ctx, m.Model, m.Types, o.Options, h, most, quantile)
	if err != nil {
		return nil, err
	}
	return &Bands{found, m}, nil
}

// File returns the plan of a band as a plan file, for Model.PlanFile.
func (b *Bands) File(band int, seed int64) ([]byte, error) {
	return (&Plan{b.List[band].Plan, b.Of}).File(seed)
}

// errSpanDevice says that a plan for many sizes is for no kernels in particular.
var errSpanDevice = &Error{OfCaller, errors.New("a plan for a range of sizes knows no workspaces of kernels: wanted " +
	"options without a device")}

// Pareto plans for the given number of budgets, from the lowest peak that was reached up to the baseline. The
// budget has the options of the search. The time that a context leaves is spread over the budgets; when it is
// done, the plans found so far are the answers.
func (m *Model) Pareto(ctx context.Context, b Budget, o PlanOptions,
	n int) (*planner.Curve, error) {
	o.Dims, o.Strategy = m.Dims, b
	return planner.Pareto(ctx, m.Model, m.Types, o.Options, n)
}

// PointFile returns the plan of a point of the model's curve as a plan file, for Model.PlanFile.
func (m *Model) PointFile(c *planner.Curve, point int, seed int64) ([]byte, error) {
	data, err := configs.FormatPlan(c.FileRecord(point, m.StructureSHA256, seed, Version()))
	if err != nil {
		return nil, &Error{OfMemopt, err}
	}
	return data, nil
}

// Held returns the bytes of each tensor that is there throughout the step: inputs, weights, states and constants.
// Tensors whose sizes depend on unbound symbols are left out.
func (m *Model) Held() (list []int64) {
	g := m.Graph
	for i := range g.Values {
		v := graph.ValueID(i)
		if x := &g.Values[i]; !x.Input && !x.IsInitializer() && (x.Def == graph.NoNode || !live.Persistent(g, v)) {
			continue
		}
		if n, err := g.Values[i].Type.Bytes().Eval(m.Dims); err == nil {
			list = append(list, max(n, 0))
		}
	}
	return list
}

// Record returns the plan in the form used by plan files and the metadata of rewritten models. A rewrite derives
// the seeds of random nodes from the seed.
func (p *Plan) Record(seed int64) *recompute.Record {
	return p.Plan.Record(p.Of.StructureSHA256, seed)
}

// File returns the plan as a plan file, for Model.PlanFile.
func (p *Plan) File(seed int64) ([]byte, error) {
	data, err := configs.FormatPlan(p.Plan.FileRecord(p.Of.StructureSHA256, seed, Version()))
	if err != nil {
		return nil, &Error{OfMemopt, err}
	}
	return data, nil
}

// Layerwise plans level 1 of the same model with the same options, to compare the plan with.
func (p *Plan) Layerwise() (*planner.Plan, error) {
	o := p.Baseline().Options
	o.Strategy, o.Probe, o.SkipLayout = planner.Layerwise, nil, true
	o.RowPeaks, o.Alternatives, o.Within = false, false, nil
	return p.Again(context.Background(), o)
}
