package budget

import (
	"context"

	"memopt/internal/timelimit"
	"memopt/planner/remat"
	"memopt/recompute"
)

// ParetoPoint is a plan on the curve of peak and cost.
type ParetoPoint struct {
	Budget     int64   // bytes of the arena that were allowed
	Live       int64   // peak of live bytes
	Arena      int64   // bytes of the planned layout
	Overhead   float64 // as a share of a step
	LowerBound float64 // no plan in this order within the budget costs less
	Nodes      int     // recomputed
	Placements []recompute.Placement
	Method     string // that found the plan
}

// Pareto plans for n budgets spread evenly from the lowest peak that is reached to the baseline.
// Peaks are within the budgets, and overheads never rise with them. The time that the context leaves
// is spread over the budgets: first each gets a plan that is found at once, then each is searched for
// an equal part of it, then each gets its bound. When the context is done, the plans found so far are
// the answers; stopped says that its deadline ended something.
func Pareto(ctx context.Context, p *Problem, o *Options, n int) (points []ParetoPoint, stopped bool, err error) {
	b := newBudgeter(ctx, p, o)
	points, err = b.pareto(n)
	return points, b.stopped, err
}

// The shares of the time for the lowest peak, where the curve begins, for first plans, and, out of
// the remaining time, for the searches; the rest is for the bounds.
const (
	lowestPart = 4
	firstPart  = 4
	climbShare = 0.6
)

func (b *budgeter) pareto(n int) ([]ParetoPoint, error) {
	if err := b.demand(); err != nil {
		return nil, err
	}
	base, err := b.point(&remat.Answer{Method: "order"})
	if err != nil {
		return nil, err
	}
	b.points = append(b.points, *base)
	work := max(int64(b.opts.Effort*effortWork)/int64(n+2), 1)
	search := b.newSearch()
	low := base
	done := b.part(min(n+1, lowestPart))
	answer, err := search.Lowest(b.ctx, work)
	done()
	if err == nil {
		if low, err = b.point(answer); err != nil {
			return nil, err
		}
		b.points = append(b.points, *low)
	}
	budgets := spread(min(low.arena, base.arena), base.arena, n)
	searched := budgets[:n-1] // the last is the baseline's
	if err := b.each(byHalves(searched), b.newSearch(), 0, 1./firstPart); err != nil {
		return nil, err
	}
	if err := b.each(searched, search, work, climbShare); err != nil {
		return nil, err
	}
	out := make([]ParetoPoint, n)
	for i, budget := range budgets {
		done := b.part(n - i)
		out[i] = b.paretoPoint(b.cheapest(budget), budget, work)
		done()
		b.opts.found()
	}
	return out, nil
}

// spread returns n budgets at equal distances.
func spread(from, to int64, n int) []int64 {
	budgets := make([]int64, n)
	for i := range n - 1 {
		budgets[i] = from + int64(float64(to-from)*float64(i)/float64(n-1))
	}
	budgets[n-1] = to
	return budgets
}

// byHalves orders budgets so that every prefix is spread over all of them, for a search that may run
// out of time: the middle, then the quarters, then the eighths.
func byHalves(budgets []int64) []int64 {
	n := len(budgets)
	out := make([]int64, 0, n)
	step := 1
	for step < n {
		step *= 2
	}
	for step /= 2; step > 0; step /= 2 {
		for i := step; i < n; i += 2 * step {
			out = append(out, budgets[i])
		}
	}
	return append(out, budgets[:min(n, 1)]...)
}

// each searches for a plan to each budget, in equal parts of a share of the time that is left.
func (b *budgeter) each(budgets []int64, search *halves, work int64, share float64) error {
	defer b.span(share)()
	for i, budget := range budgets {
		if b.ctx.Err() != nil {
			return nil
		}
		done := b.part(len(budgets) - i)
		err := b.search(search, budget, work)
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// part limits the following work to one of n equal parts of the time that the context leaves.
func (b *budgeter) part(of int) (done func()) { return b.span(1 / float64(of)) }

// span limits the following work to a share of the time that the context leaves, and notes whether
// that ended it.
func (b *budgeter) span(share float64) (done func()) {
	return b.limited(timelimit.Share(b.ctx, share))
}

func (b *budgeter) paretoPoint(pt *point, budget, work int64) ParetoPoint {
	out := ParetoPoint{Budget: budget, Live: pt.live, Arena: pt.arena, Nodes: len(pt.extras),
		Placements: pt.placements, Method: pt.method}
	least := b.leastCost(pt, budget, work)
	if step := b.tasks.stepCost(); step > 0 {
		out.Overhead, out.LowerBound = float64(pt.cost)/step, float64(least)/step
	}
	return out
}
