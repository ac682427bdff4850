package planner

import (
	"context"
	"errors"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner/budget"
	"memopt/planner/chunk"
	"memopt/planner/place"
	"memopt/recompute"
	"memopt/symbolic"
)

// Curve is the plans of one graph and their costs at rising budgets.
type Curve struct {
	Persistent int64 // bytes of inputs and weights, not included in the points
	Points     []ParetoPoint
	Stopped    bool // the time limit ended searches: more time may find cheaper plans

	of []*Plan // by point: of the graph, or the chunked graph, that its placements are for
}

// Fission returns the chunked regions of the plan of a point; nil if it has no such regions.
func (c *Curve) Fission(i int) []chunk.Cut {
	if c.of == nil {
		return nil
	}
	return c.of[i].Fission
}

// FileRecord returns the plan of a point as plan files have it; see Plan.FileRecord.
func (c *Curve) FileRecord(i int, sha string, seed int64, version string) *recompute.Record {
	p, pt := c.of[i], &c.Points[i]
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

// Pareto plans for n budgets spread evenly from the lowest peak that is reached to the baseline.
// Peaks are within the budgets, and overheads never rise with them. The strategy, if it is a budget,
// has the options of the search. The time that the context leaves is spread over the budgets; when it
// is done, the plans found so far are the answers. With Options.Chunk, plans with chunked regions are
// among them.
func Pareto(ctx context.Context, m *graph.Model, types *op.Result, opts Options,
	n int) (*Curve, error) {
	if n < 1 {
		return nil, errors.New("a curve needs at least one point")
	}
	b := opts.Budget()
	if b == nil {
		b = &Budget{Share: 1, Effort: 10}
	}
	as := opts
	as.Strategy, as.SkipLayout = nil, true
	p, err := MakeContext(ctx, m, types, as)
	if err != nil {
		return nil, err
	}
	if p.Sizes == nil {
		return nil, &symbolic.UnboundError{Symbols: p.Unbound}
	}
	opts.Strategy = b
	r, err := newRequest(m, types, opts)
	if err != nil {
		return nil, err
	}
	out := &Curve{Persistent: p.Persistent}
	plans, shares := []*Plan{p}, 1
	if r.mayCut() {
		shares = 2 // half of the time is for the unchanged graph
	}
	points, stopped, err := p.curve(ctx, b, n, shares)
	if err != nil {
		return nil, err
	}
	all := [][]ParetoPoint{points}
	lists, err := r.curvesInParts(ctx, p)
	if err != nil {
		return nil, err
	}
	for i, q := range lists {
		points, late, err := q.curve(ctx, b, n, len(lists)-i)
		if err != nil {
			return nil, err
		}
		plans, all, stopped = append(plans, q), append(all, points), stopped || late
	}
	out.Stopped = stopped
	out.merge(plans, all)
	return out, nil
}

// mostCurves is how many chunked graphs a curve looks at.
const mostCurves = 3

// curvesInParts are the plans of chunked graphs, without recomputation, whose curves may go lower
// than that of the plan p, or cost less.
func (r *request) curvesInParts(ctx context.Context, p *Plan) ([]*Plan, error) {
	if !r.mayCut() || ctx.Err() != nil {
		return nil, nil
	}
	c := &chunker{request: r, ctx: ctx}
	var err error
	if c.whole, err = c.asGiven(ctx, p.Analysis.Order); err != nil {
		return nil, err
	}
	if err := c.propose(); err != nil {
		return nil, err
	}
	var out []*Plan
	for _, l := range spreadOver(c.lists, mostCurves) {
		out = append(out, l.asIs)
	}
	return out, nil
}

// curve plans the graph of a plan to n budgets, in one of so many parts of the time that the context
// leaves.
func (p *Plan) curve(ctx context.Context, b *Budget, n, of int) ([]ParetoPoint, bool, error) {
	ctx, done := timelimit.Share(ctx, 1/float64(of))
	defer done()
	memory := place.Memory{Workspace: p.Options.Workspace, CloneBytes: p.Options.CloneBytes}
	problem := &budget.Problem{Evaluator: place.NewEvaluator(p.Analysis, p.Sizes, memory), Base: p.Base,
		Seconds: p.NodeSeconds()}
	p.demands.apply(problem)
	o := b.options(p.Persistent, p.Baseline().Base.Peak.Bytes)
	points, stopped, err := budget.Pareto(ctx, problem, o, n)
	for i := range points {
		points[i].Overhead = p.priced(points[i].Overhead)
		points[i].LowerBound = p.priced(points[i].LowerBound)
	}
	return points, stopped, err
}

// merge joins the curves of the unchanged graph and of chunked ones. If chunking helps, budgets are
// spread anew, from the lowest peak of all, and no bound of the cost holds.
func (c *Curve) merge(plans []*Plan, all [][]ParetoPoint) {
	c.Points, c.of = all[0], make([]*Plan, len(all[0]))
	for i := range c.of {
		c.of[i] = plans[0]
	}
	n := len(c.Points)
	if n == 0 || len(plans) == 1 {
		return
	}
	lowest, base := c.Points[0].Arena, c.Points[n-1].Budget
	useful := false
	for _, points := range all[1:] {
		for _, pt := range points {
			lowest = min(lowest, pt.Arena)
			best, _ := cheapestPoint(all[:1], pt.Arena)
			useful = useful || best == nil || pt.Overhead < best.Overhead
		}
	}
	if !useful {
		return
	}
	c.Points, c.of = make([]ParetoPoint, n), make([]*Plan, n)
	for i := range n {
		limit := base
		if i < n-1 {
			limit = lowest + int64(float64(base-lowest)*float64(i)/float64(n-1))
		}
		pt, of := cheapestPoint(all, limit)
		c.Points[i], c.of[i] = *pt, plans[of]
		c.Points[i].Budget, c.Points[i].LowerBound = limit, 0
	}
}

// cheapestPoint returns the cheapest point within a budget, that of the first list among equal ones,
// and its list; nil if no point fits.
func cheapestPoint(all [][]ParetoPoint, limit int64) (best *ParetoPoint, of int) {
	for l, points := range all {
		for i := range points {
			if pt := &points[i]; pt.Arena <= limit && (best == nil || pt.Overhead < best.Overhead) {
				best, of = pt, l
			}
		}
	}
	return best, of
}
