package planner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"memopt/fission"
)

const (
	// mostProposals is how many lists of cuts are weighed.
	mostProposals = 12
	// searchedLists is how many lists are searched with the given effort in graphs of more than
	// ladderNodes nodes; in smaller ones all are that could be cheaper, each with its part of the
	// effort, so that a larger budget costs no more.
	searchedLists = 2
	ladderNodes   = 1000
	// lowestTries is how many lists are planned while nothing fits, and lowestEffort divides their
	// effort: a search for what does not fit goes over the rungs several times.
	lowestTries  = 3
	lowestEffort = 4
)

// mayCut reports whether the plan may compute regions in parts.
func (r *request) mayCut() bool {
	b := r.opts.Budget()
	return b != nil && (r.opts.Chunk == fission.Exact || r.opts.Chunk == fission.Fast) &&
		!b.Clusters && !b.Runtime && len(b.StashLimits) == 0 && (b.Total > 0 || b.Share > 0 || b.Arena > 0)
}

// planned makes the plan, with regions in parts where that is cheaper.
func (r *request) planned(ctx context.Context) (*Plan, error) {
	p, err := r.plan(ctx)
	if !r.mayCut() || err != nil && !errors.Is(err, ErrUnfit) || ctx.Err() != nil {
		return p, err
	}
	if err == nil && p.Overhead <= r.leastChunkCost(p) {
		return p, nil
	}
	c := &chunker{request: r, ctx: ctx, best: p}
	if err != nil && !errors.As(err, &c.unfit) {
		return nil, err
	}
	return c.run()
}

// leastChunkCost is what no region in parts costs less than: another launch, but nothing where times
// are measured, which parts share.
func (r *request) leastChunkCost(p *Plan) float64 {
	profile := r.opts.Profile
	if profile == nil {
		profile = &DefaultProfile
	}
	if r.opts.Costs != nil || p.Step.Seconds <= 0 {
		return 0
	}
	return profile.LaunchSeconds / p.Step.Seconds
}

// chunker looks for a cheaper plan in which regions are computed in parts. It takes at most the time
// and the work that the plan without parts may take, once more.
type chunker struct {
	*request
	ctx   context.Context
	whole *Plan
	best  *Plan       // the cheapest so far; nil: nothing fits
	unfit *UnfitError // of what does not fit
	lists []*chunked
}

// chunked is a graph in parts as it is: without recomputation.
type chunked struct {
	*request
	asIs *Plan
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
	done := c.limit()
	defer done()
	if err := c.propose(); err != nil {
		return nil, err
	}
	if err := c.search(); err != nil {
		return nil, err
	}
	if c.best != nil {
		return c.best, nil
	}
	return nil, c.unfit
}

// limit lets the search end with the time that it has.
func (c *chunker) limit() (done func()) {
	b := c.opts.Budget()
	if b.Limit <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithDeadline(c.ctx, c.began.Add(2*b.Limit))
	c.ctx = ctx
	return cancel
}

// propose cuts the graph in all ways that are worth a look, and orders them by what they cost.
func (c *chunker) propose() error {
	a := c.whole.Analysis
	// For shares of the baseline's peak, and not of the budget, so that a larger one finds all that a
	// smaller one does.
	lists, err := fission.Propose(c.model, a.Order, c.opts.Dims, c.whole.Base.Peak.Bytes, c.opts.Chunk)
	if err != nil {
		return err
	}
	for _, cuts := range spreadOver(lists, mostProposals) {
		if c.ctx.Err() != nil {
			break
		}
		if err := c.weigh(cuts); err != nil {
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

// weigh cuts the graph. What is demanded of single values may be impossible in parts; then the cuts
// are left out.
func (c *chunker) weigh(cuts []fission.Cut) error {
	cut, err := c.cut(c.ctx, c.whole, cuts)
	if err != nil {
		return err
	}
	as := *cut
	as.opts.Strategy, as.opts.SkipLayout = nil, true
	as.opts.RowPeaks, as.opts.Alternatives, as.opts.Within = false, false, nil
	asIs, err := as.plan(c.ctx)
	if errors.Is(err, ErrDemand) {
		return nil
	}
	if err == nil {
		c.lists = append(c.lists, &chunked{cut, asIs})
	}
	return err
}

// search plans the lists to the budget that could be cheaper than the best plan.
func (c *chunker) search() error {
	b := *c.opts.Budget()
	open := c.open(b.bytes(c.whole.Persistent, c.whole.Base.Peak.Bytes))
	asGiven, searched := c.best, len(c.lists)
	if large := len(c.model.Graph.Nodes) > ladderNodes; large || c.best == nil {
		sifted, err := c.sift(open)
		if err != nil {
			return err
		}
		if large && c.best != nil {
			open, searched = sifted, searchedLists
		}
	}
	if c.best == nil { // nothing fits so far: what can come lowest is looked at again
		slices.SortStableFunc(open, lowerBound)
		open, searched = open[:min(len(open), lowestTries)], lowestEffort
	}
	quick := c.best
	if c.best = asGiven; len(c.model.Graph.Nodes) > ladderNodes {
		c.best = quick
	}
	b.Effort /= float64(max(searched, 1))
	for i, l := range open {
		if c.ctx.Err() != nil {
			break
		}
		if c.best != nil && l.asIs.Overhead >= c.best.Overhead {
			continue
		}
		if err := c.try(l, b, len(open)-i, true); err != nil {
			return err
		}
	}
	if c.best == nil {
		c.best = quick // in small graphs only where nothing else fits: it depends on the budget
	}
	return nil
}

// open lists what can fit a budget; where nothing does, what can come lowest.
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

// sift plans quickly, what can come lowest first where nothing fits yet, and returns the lists that
// were the cheapest.
func (c *chunker) sift(open []*chunked) ([]*chunked, error) {
	quick := *c.opts.Budget()
	quick.Effort, quick.Found, quick.Progress = 0, nil, nil
	list := slices.Clone(open)
	if c.best == nil {
		slices.SortStableFunc(list, lowerBound)
	}
	var fit []*chunked // the cheapest first
	for i, l := range list {
		if c.ctx.Err() != nil {
			break
		}
		if c.best != nil && l.asIs.Overhead >= c.best.Overhead || c.best == nil && i >= lowestTries {
			continue
		}
		before, of := c.best, 2*(len(list)-i)
		if c.best == nil {
			of = lowestTries + 1 - i
		}
		if err := c.try(l, quick, of, false); err != nil {
			return nil, err
		}
		if c.best != before {
			fit = slices.Insert(fit, 0, l)
		}
	}
	return fit[:min(len(fit), searchedLists)], nil
}

// try plans one list to a budget, in one of so many parts of the time that is left, and keeps the
// plan if it is the cheapest.
func (c *chunker) try(l *chunked, b Budget, of int, full bool) error {
	r := *l.request
	r.began = time.Now()
	if b.Limit > 0 {
		end, _ := c.ctx.Deadline()
		b.Limit = max(time.Until(end)/time.Duration(of), time.Millisecond)
	}
	r.opts.Strategy = b
	if !full {
		r.opts.RowPeaks, r.opts.Alternatives = false, false
	}
	p, err := r.plan(c.ctx)
	var unfit *UnfitError
	switch {
	case errors.As(err, &unfit):
		c.lower(unfit)
		return nil
	case err != nil:
		return err
	}
	if c.best == nil || cheaper(p, c.best) || full && !cheaper(c.best, p) {
		c.best = p
	}
	return nil
}

// lower notes how low plans in parts come.
func (c *chunker) lower(e *UnfitError) {
	if c.unfit == nil {
		return
	}
	c.unfit.InParts = true
	c.unfit.Stopped = c.unfit.Stopped || e.Stopped
	c.unfit.LowestArena = min(c.unfit.LowestArena, e.LowestArena)
	c.unfit.LowestLive = min(c.unfit.LowestLive, e.LowestLive)
}

// cheaper reports whether a plan costs less than another, or as much with fewer regions.
func cheaper(p, q *Plan) bool {
	return cmp.Or(cmp.Compare(p.Overhead, q.Overhead), cmp.Compare(len(p.Fission), len(q.Fission))) < 0
}
