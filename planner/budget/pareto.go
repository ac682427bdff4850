package budget

import (
	"context"
	"time"

	"memopt/planner/remat"
)

// ParetoPoint is a plan on the curve of peak and cost.
type ParetoPoint struct {
	Budget     int64   // bytes of the arena that were allowed
	Live       int64   // peak of live bytes
	Arena      int64   // bytes of the planned layout
	Overhead   float64 // as a share of a step
	LowerBound float64 // no plan in this order within the budget costs less
	Nodes      int     // that run again
}

// Pareto plans to n budgets spread evenly from the lowest peak that is reached to the baseline.
// Peaks are within the budgets, and overheads never rise with them. When the context is done, the
// budgets not searched yet, those at the upper end, are left out.
func Pareto(ctx context.Context, p *Problem, o *Options, n int) ([]ParetoPoint, error) {
	return newBudgeter(ctx, p, o).pareto(n)
}

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
	done := b.part(n + 1)
	answer, err := search.Lowest(b.ctx, work)
	done()
	if err == nil {
		if low, err = b.point(answer); err != nil {
			return nil, err
		}
		b.points = append(b.points, *low)
	}
	from, to := min(low.arena, base.arena), base.arena
	var out []ParetoPoint
	for i := range n {
		budget := to
		if i < n-1 {
			budget = from + int64(float64(to-from)*float64(i)/float64(n-1))
		}
		done := b.part(2 * (n - i))
		err := b.search(search, budget, work)
		done()
		if err != nil {
			return nil, err
		}
		if best := b.cheapest(budget); best != nil {
			done := b.part(2*(n-i) - 1)
			out = append(out, b.paretoPoint(best, budget, work))
			done()
			b.opts.found()
		}
		if b.ctx.Err() != nil {
			break
		}
	}
	return out, nil
}

// part limits the following work to one of n equal parts of the time that the context leaves, so
// that every budget gets some.
func (b *budgeter) part(of int) (done func()) {
	whole := b.ctx
	end, ok := whole.Deadline()
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(whole, time.Until(end)/time.Duration(of))
	b.ctx = ctx
	return func() {
		cancel()
		b.ctx = whole
	}
}

func (b *budgeter) paretoPoint(pt *point, budget, work int64) ParetoPoint {
	out := ParetoPoint{Budget: budget, Live: pt.live, Arena: pt.arena, Nodes: len(pt.extras)}
	least := b.leastCost(pt, budget, work)
	if step := b.tasks.stepCost(); step > 0 {
		out.Overhead, out.LowerBound = float64(pt.cost)/step, float64(least)/step
	}
	return out
}
