package planner

import (
	"context"
	"errors"
	"time"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/budget"
	"memopt/planner/place"
	"memopt/recompute"
	"memopt/symbolic"
)

// Curve is what plans of one graph cost at rising budgets.
type Curve struct {
	Persistent int64 // bytes of inputs and weights, in none of the points
	Points     []ParetoPoint
	Stopped    bool // the time limit ended searches: more time may find cheaper plans

	base *Plan // of the graph as it is
}

// FileRecord returns the plan of a point as plan files have it; see Plan.FileRecord.
func (c *Curve) FileRecord(i int, sha string, seed int64, version string) *recompute.Record {
	p, pt := c.base, &c.Points[i]
	r := p.FileRecord(sha, seed, version)
	r.Placements, r.Solver = recompute.RecordPlacements(p.Analysis.Graph, pt.Placements), pt.Method
	r.Budget = &recompute.BudgetRecord{ArenaBytes: pt.Budget, In: "memopt"}
	r.Recompute.Nodes, r.Recompute.Overhead = pt.Nodes, pt.Overhead
	r.Predicted = &recompute.PeakRecord{BaselineBytes: p.Baseline().Base.Peak.Bytes, PlannedBytes: pt.Live,
		LowerBoundBytes: p.Baseline().Base.LowerBound, ArenaBytes: pt.Arena, PersistentBytes: c.Persistent,
		TotalBytes: c.Persistent + pt.Arena, CloneBytes: int64(pt.Nodes) * p.Options.CloneBytes}
	r.Bound = &Bound{Overhead: pt.LowerBound, Gap: (pt.Overhead - pt.LowerBound) / (1 + pt.Overhead),
		Optimal: pt.Overhead == pt.LowerBound}
	return r
}

// Pareto plans to n budgets spread evenly from the lowest peak that is reached to the baseline.
// Peaks are within the budgets, and overheads never rise with them. The strategy, if it is a
// budget, says how to search. The time that the context leaves is spread over the budgets; when it is
// done, the plans found so far are the answers.
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
	points, stopped, err := budget.Pareto(ctx, problem, o, n)
	if err != nil {
		return nil, err
	}
	return &Curve{Persistent: p.Persistent, Points: points, Stopped: stopped, base: p}, nil
}
