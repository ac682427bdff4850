package planner

import (
	"context"
	"errors"
	"time"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/budget"
	"memopt/planner/place"
	"memopt/symbolic"
)

// Curve is what plans of one graph cost at rising budgets.
type Curve struct {
	Persistent int64 // bytes of inputs and weights, in none of the points
	Points     []ParetoPoint
}

// Pareto plans to n budgets spread evenly from the lowest peak that is reached to the baseline.
// Peaks are within the budgets, and overheads never rise with them. The strategy, if it is a
// budget, says how to search. A context that is done leaves the budgets out that were not searched
// yet: those at the upper end.
func Pareto(ctx context.Context, m *graph.Model, types *op.Result, opts Options,
	n int) (*Curve, error) {
	if n < 1 {
		return nil, errors.New("a curve needs at least one point")
	}
	b := opts.Budget()
	if b == nil {
		b = &Budget{Share: 1, Effort: 10}
	}
	began := time.Now()
	opts.Strategy, opts.SkipLayout = nil, true
	p, err := MakeContext(ctx, m, types, opts)
	if err != nil {
		return nil, err
	}
	if p.Sizes == nil {
		return nil, &symbolic.UnboundError{Symbols: p.Unbound}
	}
	memory := place.Memory{Workspace: opts.Workspace, CloneBytes: opts.CloneBytes}
	problem := &budget.Problem{Bench: place.NewBench(p.Analysis, p.Sizes, memory), Base: p.Base,
		Seconds: p.NodeSeconds()}
	p.demands.apply(problem)
	o := b.options(p.Persistent, p.Base.Peak.Bytes, began)
	points, err := budget.Pareto(ctx, problem, o, n)
	if err != nil {
		return nil, err
	}
	return &Curve{Persistent: p.Persistent, Points: points}, nil
}
