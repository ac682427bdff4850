package remat

import (
	"context"
	"math"
)

// Sweep looks for schedules of one problem within budgets that grow with time, as far as a link could carry
// bytes to another memory by then. Schedules that were found once are where the search begins again.
type Sweep struct {
	s    *problemSolver
	asks int   // calls of Within
	Work int64 // counted so far
}

// NewSweep begins with the schedule that computes every node once in the given order. The problem must be valid;
// its budget plays no part.
func NewSweep(ctx context.Context, p *Problem, seed int64) *Sweep {
	s := &problemSolver{folded: fold(p), ctx: ctx, opts: Options{Seed: seed}, budget: math.MaxInt64 / 2,
		lowest: math.MaxInt64, cost: math.MaxInt64}
	for _, v := range s.real {
		s.base += s.folded.cost[v]
	}
	s.arrange(s.real)
	s.bound = s.base
	s.add(s.real)
	return &Sweep{s: s}
}

// Need is the most that one computation needs by itself, with the values that live throughout: no schedule has a
// lower peak.
func (w *Sweep) Need() int64 { return w.s.relaxed().Need() + w.s.p.Resident }

// AddOrders lets further orders of first computes compete, unless the problem has but the given one. The best of
// them are left after some calls of Within.
func (w *Sweep) AddOrders(ctx context.Context) {
	if w.s.ctx = ctx; !w.s.p.InOrder {
		w.s.budget, w.asks = math.MaxInt64/2, 0
		w.s.addOrders()
	}
}

// Within looks for a cheap schedule that takes at most budget bytes, and at each moment as many more as a
// link of so many bytes per unit of cost carries from the start to it, or from it to the end, or as another
// memory holds, whichever is less, and returns it with its cost. It does so much counted work beyond the first
// schedules. Without a schedule the steps are nil.
func (w *Sweep) Within(
	ctx context.Context, budget int64, rate float64, hold, work int64,
) ([]Step, float64, error) {
	s := w.s
	s.ctx, s.best, s.cost = ctx, nil, math.MaxInt64
	for _, a := range s.arms {
		if s.best != nil && ctx.Err() != nil {
			break
		}
		most := a.folded.graph.Lend(rate/s.scale, hold)
		s.budget = budget - s.p.Resident + most
		a.restart(s.opts.Seed)
		s.settle(a)
		if s.met() {
			break
		}
		if work > 0 {
			tasks, at := a.folded.graph.fittingCut(ctx, s.budget, seedWork)
			_ = a.search.Add(a.folded.graph.FromCut(tasks, at), "cut")
		}
		_, _ = a.search.Fit(ctx, s.budget, max(1, work/int64(len(s.arms))))
		w.Work += a.search.d.work + int64(len(a.folded.graph.Tasks))
		s.settle(a)
	}
	s.rank()
	s.arms = s.arms[:min(len(s.arms), max(1, mostArms>>w.asks))] // one order is left soon
	w.asks++
	if s.best == nil {
		return nil, 0, nil
	}
	steps := s.steps(s.best)
	cost, _, err := s.p.Simulate(steps)
	return steps, cost, err
}

// Lend sets Beside so that a budget may grow by the bytes that it returns, and yet leaves each moment no more than
// a link of so many bytes per unit of cost carries from the start to it, or from it to the end, or than another
// memory holds, whichever is least.
func (g *Graph) Lend(rate float64, hold int64) (most int64) {
	total, before := 0.0, 0.0
	for t := range g.Tasks {
		total += float64(g.Tasks[t].Cost)
	}
	g.Beside = make([]int64, len(g.Tasks))
	for t := range g.Tasks {
		g.Beside[t] = int64(min(rate*min(before, total-before), float64(hold), maxTotal))
		most = max(most, g.Beside[t])
		before += float64(g.Tasks[t].Cost)
	}
	for t := range g.Beside {
		g.Beside[t] = most - g.Beside[t]
	}
	return most
}

// restart makes the search of an arm anew, after a change of its graph, with the schedules that it knows.
func (a *arm) restart(seed int64) {
	known := a.search.known
	a.search = NewSearch(a.folded.graph, seed)
	for _, k := range known {
		_ = a.search.Add(k.Extras, k.Method)
	}
	a.idle, a.tape, a.found = false, nil, nil
}
