package planner

import (
	"context"
	"math"

	"memopt/planner/anchor"
	"memopt/planner/arena"
	"memopt/planner/remat"
	"memopt/symbolic"
)

// A plan to a budget in stock ONNX Runtime is the cheapest of a set of plans whose files, anchors
// included, are within the budget in the simulation of its arena. That peak and memopt's own go up
// and down together, but not step by step: anchors hold an order back as far as they can, and the
// arena rounds. So budgets of memopt's arena are tried on a grid, from the highest on until one is
// low enough, and then between that and the one before.
const (
	runtimeGrid    = 8
	runtimeHalving = 5
)

// runtimeFit looks for a plan to a budget in stock ONNX Runtime.
type runtimeFit struct {
	*budgeter
	limit  int64               // bytes of the runtime's arena
	judged []*anchor.Anchoring // by point; nil where it was not simulated
	search *remat.Search
}

// fitRuntime makes the cheapest plan that is found whose file stays within the budget in stock ONNX
// Runtime the plan. The error is an *UnfitError where none was found, with the lowest peak that was
// reached there.
func (p *Plan) fitRuntime(ctx context.Context) (*selection, error) {
	if p.Sizes == nil {
		return nil, &symbolic.UnboundError{Symbols: p.Unbound}
	}
	r := &runtimeFit{budgeter: p.newBudgeter(ctx)}
	best, err := r.fit()
	if err != nil {
		return nil, err
	}
	p.packed = r.points[best].layout
	sel, err := p.takePlacements(r.points[best].placements)
	if err != nil {
		return nil, err
	}
	p.Solver, p.Runtime = r.points[best].method, r.judged[best]
	r.budget = r.points[best].arena // what explanations compare with
	p.budgeter = r.budgeter
	cost := r.points[best].cost
	p.Bound = &Bound{Optimal: cost == 0} // of what other plans come to in the runtime, nothing is known
	if step := r.stepCost(); step > 0 {
		p.Bound.Gap = float64(cost) / (step + float64(cost))
	}
	return sel, nil
}

// RuntimeBudget returns the bytes that the plan's budget leaves the arena of stock ONNX Runtime,
// and whether its file stays within them; 0 and true where no budget was asked for that bounds an
// arena, or the runtime was not simulated.
func (p *Plan) RuntimeBudget(a *anchor.Anchoring) (limit int64, fits bool) {
	b := p.Options.Budget
	if b == nil || b.Total == 0 && b.Share == 0 && b.Arena == 0 || a == nil || !a.Simulated {
		return 0, true
	}
	limit = b.InRuntime(p, a.BaseArena)
	return limit, a.AnchoredArena <= limit
}

// InRuntime returns the bytes that a budget leaves ONNX Runtime's arena, of which a graph as it is
// takes base bytes: a share is one of these.
func (b *Budget) InRuntime(p *Plan, base int64) int64 {
	if b.Share > 0 {
		return int64(b.Share * float64(base))
	}
	return b.bytes(p)
}

func (r *runtimeFit) fit() (int, error) {
	if err := r.limitRegions(); err != nil {
		return 0, err
	}
	if err := r.add(&remat.Answer{Method: "order"}); err != nil {
		return 0, err
	}
	base, err := r.judge(0)
	if err != nil {
		return 0, err
	}
	r.limit = r.opts.InRuntime(r.p, base.BaseArena)
	if base.AnchoredArena > r.limit {
		if err := r.descend(); err != nil {
			return 0, err
		}
	}
	if best := r.best(); best >= 0 {
		return best, nil
	}
	return 0, r.unfit()
}

// descend searches plans of less and less memory, all in one search: first quick ones on the grid
// until one is low enough, then better ones between it and the one before.
func (r *runtimeFit) descend() error {
	total := int64(r.opts.Effort * effortWork)
	r.search = r.newSearch()
	done := r.first()
	defer func() { done() }()
	above := r.points[0].arena // budgets of memopt's arena: one that is too high, and one that is low enough
	fits := int64(-1)
	for k := int64(runtimeGrid - 1); k > 0 && fits < 0 && r.ctx.Err() == nil; k-- {
		budget := r.points[0].arena / runtimeGrid * k
		found := len(r.points)
		ok, err := r.try(budget, 0)
		switch {
		case err != nil:
			return err
		case ok:
			fits = budget
		case len(r.points) == found:
			k = 1 // there is no such plan, and none lower
		default:
			above = budget
		}
	}
	if r.ctx.Err() != nil && fits < 0 {
		return nil
	}
	if fits < 0 {
		low, err := r.newSearch().Lowest(r.ctx, max(total/2, lowestWork))
		if err != nil {
			return err
		}
		if err := r.add(low); err != nil {
			return err
		}
		a, err := r.judge(len(r.points) - 1)
		if err != nil || a.AnchoredArena > r.limit {
			return err
		}
		fits = r.points[len(r.points)-1].arena
	}
	done()
	done = r.within(searchShare)
	h := halving{fits, above, r.try}
	return h.run(r.ctx, total/(runtimeHalving+1))
}

// halving looks between a budget of memopt's arena that is low enough and one that is not for the
// highest that is.
type halving struct {
	fits, above int64
	try         func(budget, work int64) (bool, error)
}

// run tries the lower budget again, with more effort, and then those in the middle of what is left.
func (h *halving) run(ctx context.Context, work int64) error {
	budget := h.fits
	for step := 0; step < runtimeHalving && h.above-h.fits > arena.Alignment && work > 0 && ctx.Err() == nil; step++ {
		ok, err := h.try(budget, work)
		if err != nil {
			return err
		}
		if ok {
			h.fits = budget
		} else if budget > h.fits {
			h.above = budget
		}
		budget = h.fits + (h.above-h.fits)/2
	}
	return nil
}

// try searches the cheapest plan within a budget of memopt's arena and reports whether its file is
// within the limit.
func (r *runtimeFit) try(budget, work int64) (bool, error) {
	if err := r.budgeter.search(r.search, budget, work); err != nil {
		return false, err
	}
	cheapest := r.cheapest(budget)
	for i := range r.points {
		if &r.points[i] == cheapest {
			a, err := r.judge(i)
			fits := err == nil && a.AnchoredArena <= r.limit
			if fits {
				r.opts.found()
			}
			return fits, err
		}
	}
	return false, nil
}

// judge simulates a point in ONNX Runtime.
func (r *runtimeFit) judge(i int) (*anchor.Anchoring, error) {
	for len(r.judged) < len(r.points) {
		r.judged = append(r.judged, nil)
	}
	if r.judged[i] == nil {
		var err error
		if r.judged[i], err = r.p.anchored(r.points[i].placements, false); err != nil {
			return nil, err
		}
	}
	return r.judged[i], nil
}

// best is the cheapest point within the limit, of equal ones that which takes less of the runtime's
// arena; -1 where there is none.
func (r *runtimeFit) best() int {
	best := -1
	for i, a := range r.judged {
		if a == nil || a.AnchoredArena > r.limit {
			continue
		}
		if best < 0 || r.points[i].cost < r.points[best].cost || r.points[i].cost == r.points[best].cost && a.AnchoredArena < r.judged[best].AnchoredArena {
			best = i
		}
	}
	return best
}

func (r *runtimeFit) unfit() error {
	e := &UnfitError{Budget: r.limit, LowestArena: math.MaxInt64, LowestLive: math.MaxInt64, What: "plan for stock ONNX Runtime"}
	e.Stopped = r.p.Stopped
	if r.opts.Total > 0 {
		e.Persistent = r.p.Persistent
	}
	for _, a := range r.judged {
		if a != nil {
			e.LowestArena, e.LowestLive = min(e.LowestArena, a.AnchoredArena), min(e.LowestLive, a.Anchored)
		}
	}
	return e
}
