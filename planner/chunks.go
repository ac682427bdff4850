package planner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"memopt/internal/timelimit"
	"memopt/planner/budget"
	"memopt/planner/chunk"
)

const (
	// mostProposals is how many lists of cuts are weighed.
	mostProposals = 20
	// A list is worth a look if it leaves at most so many nodes, or so many times the graph's.
	fewNodes, mostTimes = 1000, 8
	// A plan that costs less than leastGain, a share of a step, is accepted without a look at others.
	leastGain = 0.01
	// searchGain is how many times the price of the plan without parts the first plan of a list may
	// cost for the list to be searched: a search improves on first plans by about that.
	searchGain = 1.25
	// A list's first plan has this counted work, and so much by node.
	firstWork, firstPart = 400_000, 400
	// spentEffort divides the effort where a plan fits without parts: most of it has been spent on that.
	spentEffort = 4
	// lowestTries is how many lists are planned if every quick plan is infeasible.
	lowestTries = 2
)

// mayCut reports whether the plan may compute regions in chunks.
func (r *request) mayCut() bool {
	b := r.opts.Budget()
	return b != nil && (r.opts.Chunk == chunk.Exact || r.opts.Chunk == chunk.Fast) &&
		!b.Clusters && len(b.StashLimits) == 0 && (b.Total > 0 || b.Share > 0 || b.Arena > 0)
}

// wholeShare is the part of the time that the plan without parts has, where parts are looked for, too.
const wholeShare = 0.6

// quickTime is the time limit of a first plan that is not found by a search of counted work: among clusters
// or in another runtime. If no plan without chunking fits, chunked plans are searched until quickParts after
// the deadline: a limit of 0 is exceeded by less than half a second then. Without a limit, and with an effort
// of 0, chunked plans are counted work, too.
const (
	quickTime  = time.Second
	quickParts = 400 * time.Millisecond
)

// quickly limits the search for a first plan, which takes place regardless of the deadline.
func quickly(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	return until(ctx, time.Now().Add(most))
}

// until gives the run another deadline.
func until(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	return timelimit.With(timelimit.Without(ctx), end)
}

// planned makes the plan, with chunked regions where that is cheaper.
func (r *request) planned(ctx context.Context) (*Plan, error) {
	if !r.mayCut() {
		return r.plan(ctx)
	}
	quick, late := r.opts.Budget().Effort <= 0, timelimit.Ended(ctx)
	share, done := timelimit.Share(ctx, wholeShare)
	p, err := r.plan(share)
	done()
	switch {
	case err == nil && (quick || p.Overhead <= leastGain):
		return p, nil
	case err != nil && !errors.Is(err, ErrInfeasible):
		return p, err
	case quick && late && !r.opts.Budget().Runtime:
		if end, ok := ctx.Deadline(); ok {
			ctx, done = until(ctx, end.Add(quickParts))
			defer done()
		}
	}
	c := &chunker{request: r, ctx: ctx, best: p}
	errors.As(err, &c.infeasible)
	if ctx.Err() != nil || err != nil && c.infeasible.Budget <= 0 {
		return p, err
	}
	return c.run()
}

// chunker looks for a cheaper plan with chunked regions. All lists of cuts that can fit get a first plan
// each, and the best of them is searched with the remaining time of the plan without parts and a part of its
// work. The plan never costs more than the one without parts. A larger budget may cost more than a smaller
// one that needs parts, by the randomness of a search.
type chunker struct {
	*request
	ctx        context.Context
	whole      *Plan
	best       *Plan            // the cheapest so far; nil if no plan fits
	infeasible *InfeasibleError // if no plan fits
	lists      []*chunked
}

// chunked is a chunked graph, with its plan without recomputation and its first plan.
type chunked struct {
	*request
	asIs  *Plan
	first *Plan // nil before a first plan was tried, or if it does not fit
}

func (c *chunker) run() (*Plan, error) {
	var err error
	if c.best != nil {
		c.whole, err = c.asGiven(c.ctx, c.best.Analysis.Order)
	} else {
		c.whole, err = c.asGiven(c.ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	r := *c.request
	c.request = &r
	if r.floor, err = chunk.Floor(r.model, c.whole.Analysis.Order, r.opts.Dims, r.opts.Chunk); err != nil {
		return nil, err
	}
	if err := c.impossible(); err != nil {
		return nil, err
	}
	if err := c.propose(); err != nil {
		return nil, err
	}
	if err := c.search(); err != nil {
		return nil, err
	}
	if c.best != nil {
		return c.best, nil
	}
	if !c.opts.Budget().Runtime && !c.infeasible.Searched() && len(c.lists) > 0 { // kernels of ORT need other bytes
		c.infeasible.InCuts = c.leastStep()
	}
	return nil, c.infeasible
}

// leastStep is the least that the largest step takes in any of the cuts; 0 where that may be within the budget.
func (c *chunker) leastStep() int64 {
	least := int64(math.MaxInt64)
	for _, l := range c.lists {
		if least = min(least, budget.Need(l.asIs.problem())); least <= c.infeasible.Budget {
			return 0
		}
	}
	return least
}

// impossible is the error where no plan fits and the bound of all parts rules the budget out, too.
func (c *chunker) impossible() error {
	if c.best != nil || c.infeasible.Searched() || c.opts.Budget().Runtime || c.floor <= c.infeasible.Budget {
		return nil
	}
	c.infeasible.LowerBound = c.floor
	return c.infeasible
}

// propose cuts the graph in all promising ways, and orders them by their costs.
func (c *chunker) propose() error {
	a := c.whole.Analysis
	// For shares of the baseline's peak, and not of the budget, so that a larger one finds all that a
	// smaller one does.
	lists, err := chunk.Propose(c.ctx, c.model, a.Order, c.opts.Dims, c.whole.Base.Peak.Bytes, c.opts.Chunk)
	if err != nil {
		return err
	}
	for _, cuts := range spreadOver(lists, mostProposals) {
		if c.ctx.Err() != nil {
			break
		}
		if err := c.weigh(cuts); err != nil && c.ctx.Err() == nil {
			return err
		}
	}
	slices.SortStableFunc(c.lists, func(x, y *chunked) int {
		return cmp.Or(cmp.Compare(x.asIs.Overhead, y.asIs.Overhead), cmp.Compare(len(x.cuts), len(y.cuts)))
	})
	return nil
}

// spreadOver takes at most n of a list, evenly, the last among them.
func spreadOver[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	out := make([]T, n)
	for i := range out {
		out[i] = list[(i+1)*len(list)/n-1]
	}
	return out
}

// weigh cuts the graph. Demands on single values may be impossible in parts; then the cuts are left out.
func (c *chunker) weigh(cuts []chunk.Cut) error {
	cut, err := c.cut(c.ctx, c.whole, cuts)
	if err != nil {
		return err
	}
	if n := len(cut.model.Graph.Nodes); n > max(fewNodes, mostTimes*len(c.model.Graph.Nodes)) {
		return nil
	}
	as := *cut
	as.opts.Strategy, as.opts.SkipLayout = nil, true
	as.opts.RowPeaks, as.opts.Alternatives, as.opts.Within = false, false, nil
	asIs, err := as.plan(c.ctx)
	if errors.Is(err, ErrDemand) {
		return nil
	}
	if err == nil {
		c.lists = append(c.lists, &chunked{request: cut, asIs: asIs})
	}
	return err
}

// search plans the lists to the budget that could be cheaper than the best plan.
func (c *chunker) search() error {
	b := *c.opts.Budget()
	open := c.open(b.bytes(c.whole.Persistent, c.whole.basePeak(&b)))
	asGiven := c.best
	if asGiven != nil {
		b.Effort /= spentEffort
	}
	if b.Lent.Link.BytesPerSecond > 0 {
		return c.moved(open, b)
	}
	if err := c.sift(open); err != nil {
		return err
	}
	for i, l := range c.promising(open, asGiven) {
		if c.ctx.Err() != nil || i > 0 && c.best != nil {
			break
		}
		if err := c.try(l, b, lowestTries-i); err != nil {
			return err
		}
	}
	return c.complete()
}

// movedTries is how many lists are planned where values move: first plans say little then, before they have moved.
const movedTries = 2

// moved plans those lists whose plans have the lowest bounds.
func (c *chunker) moved(open []*chunked, b Budget) error {
	bounds := map[*chunked]float64{}
	for _, l := range open {
		bounds[l], _ = l.asIs.MovedBound(c.ctx, b.Arena, b.Lent.Link.BytesPerSecond)
	}
	slices.SortStableFunc(open, func(x, y *chunked) int { return cmp.Compare(bounds[x], bounds[y]) })
	open = open[:min(len(open), movedTries)]
	for i, l := range open {
		if c.best != nil && (c.ctx.Err() != nil || bounds[l] >= c.best.Overhead+c.best.waits) {
			break
		}
		if err := c.try(l, b, len(open)-i); err != nil {
			return err
		}
	}
	return nil
}

// promising returns the lists to be searched: the one with the cheapest first plan or, if the budget is
// infeasible so far, those with the lowest bounds.
func (c *chunker) promising(open []*chunked, asGiven *Plan) []*chunked {
	var list []*chunked
	for _, l := range open {
		if l.first != nil && (asGiven == nil || l.first.Overhead <= searchGain*asGiven.Overhead) {
			list = append(list, l)
		}
	}
	if len(list) > 0 {
		slices.SortStableFunc(list, func(x, y *chunked) int { return cmp.Compare(x.first.Overhead, y.first.Overhead) })
		return list[:1]
	}
	if c.best != nil {
		return nil
	}
	list = slices.Clone(open)
	slices.SortStableFunc(list, lowerBound)
	return list[:min(len(list), lowestTries)]
}

// open lists the cuts that can fit a budget, or else those that can come lowest.
func (c *chunker) open(limit int64) (open []*chunked) {
	for _, l := range c.lists {
		if l.asIs.Base.LowerBound <= limit {
			open = append(open, l)
		}
	}
	if len(open) == 0 && c.best == nil && len(c.lists) > 0 {
		return []*chunked{slices.MinFunc(c.lists, lowerBound)}
	}
	return open
}

func lowerBound(x, y *chunked) int {
	return cmp.Compare(x.asIs.Base.LowerBound, y.asIs.Base.LowerBound)
}

// sift makes the first plans of lists that could be cheaper than the best one.
func (c *chunker) sift(open []*chunked) error {
	quick := *c.opts.Budget()
	quick.Effort, quick.Found, quick.Progress = 0, nil, nil
	quick.brief = true
	for i, l := range open {
		if c.ctx.Err() != nil {
			break
		}
		if c.best != nil && l.asIs.Overhead >= c.best.Overhead {
			continue
		}
		r := *l.request
		r.opts.RowPeaks, r.opts.Alternatives = false, false
		var err error
		if l.first, err = c.within(&r, quick, len(open)-i+3); err != nil {
			return err
		}
		if c.best == nil || l.first != nil && cheaper(l.first, c.best) {
			c.best = l.first
		}
	}
	return nil
}

// within plans a chunked graph for a budget, in 1/of of the time that is left. It returns nil if no plan
// fits.
func (c *chunker) within(r *request, b Budget, of int) (*Plan, error) {
	b.at, b.first = true, firstWork+firstPart*int64(len(r.model.Graph.Nodes))
	ctx, done := timelimit.Share(c.ctx, 1/float64(of))
	defer done()
	r.opts.Strategy = b
	p, err := r.plan(ctx)
	var infeasible *InfeasibleError
	if errors.As(err, &infeasible) {
		c.lower(infeasible)
		return nil, nil
	}
	return p, err
}

// try plans one list to a budget, in one of so many parts of the time that is left, and keeps the
// plan if it is the cheapest.
func (c *chunker) try(l *chunked, b Budget, of int) error {
	r := *l.request
	p, err := c.within(&r, b, of)
	if p != nil && (c.best == nil || cheaper(p, c.best)) {
		c.best = p
	}
	return err
}

// complete makes a first plan that has remained the best once more, with all that was asked for.
func (c *chunker) complete() error {
	i := slices.IndexFunc(c.lists, func(l *chunked) bool { return c.best != nil && l.first == c.best })
	if i < 0 || !c.opts.RowPeaks && !c.opts.Alternatives || c.ctx.Err() != nil {
		return nil
	}
	b := *c.opts.Budget()
	b.Effort = 0
	r := *c.lists[i].request
	p, err := c.within(&r, b, 1)
	if p != nil {
		c.best = p
	}
	return err
}

// lower notes how low chunked plans come.
func (c *chunker) lower(e *InfeasibleError) {
	if c.infeasible == nil {
		return
	}
	c.infeasible.Stopped = c.infeasible.Stopped || e.Stopped
	bound := c.floor
	if c.opts.Budget().Runtime {
		bound = 0 // it is one of memopt's arena
	}
	c.infeasible.InParts(e.LowestArena, e.LowestLive, bound)
}

// cheaper reports whether a plan costs less than another, or as much with fewer regions.
func cheaper(p, q *Plan) bool {
	return cmp.Or(cmp.Compare(p.Overhead+p.waits, q.Overhead+q.waits), cmp.Compare(len(p.Fission), len(q.Fission))) < 0
}
