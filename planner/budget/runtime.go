package budget

import (
	"context"
	"math"

	"memopt/planner/anchor"
	"memopt/planner/arena"
	"memopt/planner/remat"
	"memopt/recompute"
)

// A plan to a budget in stock ONNX Runtime is the cheapest of a set of plans whose files, anchors
// included, are within the budget in the simulation of its arena. That peak and memopt's own rise
// and fall together, but not exactly: anchors constrain the order only in part, and the arena
// rounds. So budgets of memopt's arena are tried on a grid, from the highest on until one is low
// enough, and then between that and the one before.
const (
	runtimeGrid    = 8
	runtimeHalving = 5
)

// runtimeFit looks for a plan for a budget in stock ONNX Runtime.
type runtimeFit struct {
	*budgeter
	rt     *Runtime
	limit  int64               // bytes of the runtime's arena
	judged []*anchor.Anchoring // by point; nil where it was not simulated
	search *halves
}

// Runtime computes the memory of plans in stock ONNX Runtime, with the anchors of their files.
type Runtime struct {
	// Anchor decides about the anchors of placements, and simulates the file.
	Anchor func([]recompute.Placement) (*anchor.Anchoring, error)
	// Limit is the bytes that the budget leaves to the runtime's arena, given the arena of the
	// unchanged graph.
	Limit func(base int64) int64
	// Start are candidates of the analysis whose plan is tried before the search, which starts from it; nil for none.
	Start []int
	// Object names the object of the search in errors, for example "plan for stock ONNX Runtime".
	Object string
}

// FitRuntime returns the cheapest plan found whose file stays within the budget in stock ONNX
// Runtime; Options.Bytes does not count. The error is an *InfeasibleError with the lowest peak
// reached there if no plan was found, or that of Fit.
func FitRuntime(ctx context.Context, p *Problem, o *Options, rt *Runtime) (*Answer, error) {
	r := &runtimeFit{budgeter: newBudgeter(ctx, p, o), rt: rt}
	r.runtime = true
	at, err := r.fit()
	if err != nil {
		return nil, err
	}
	best := &r.points[at]
	r.budget = best.arena // for explanations
	a := r.answer(best)
	a.Runtime = r.judged[at]
	// Only forced runs are known to be needed by every plan in the runtime.
	least := min(r.fixedCost, best.cost)
	a.Bound.Optimal = best.cost == least
	if step := r.tasks.stepCost(); step > 0 {
		a.Bound.Overhead = float64(least) / step
		a.Bound.Gap = float64(best.cost-least) / (step + float64(best.cost))
	}
	return a, nil
}

func (r *runtimeFit) fit() (int, error) {
	if err := r.demand(); err != nil {
		return 0, err
	}
	if err := r.applyLimits(); err != nil {
		return 0, err
	}
	if r.budget = r.rt.Limit(0); r.budget < 0 { // inputs and weights alone are above the budget
		return 0, r.impossible()
	}
	r.budget = r.opts.Bytes
	if err := r.add(&remat.Answer{Method: "order"}); err != nil {
		return 0, err
	}
	base, err := r.judge(0)
	if err != nil {
		return 0, err
	}
	r.limit = r.rt.Limit(base.BaseArena)
	if base.AnchoredArena > r.limit {
		if err := r.descend(); err != nil {
			return 0, err
		}
	}
	if best := r.best(); best >= 0 {
		return best, nil
	}
	return 0, r.infeasible()
}

// descend searches plans of less and less memory, all in one search: first quick ones on the grid
// until one is low enough, then better ones between it and the one before.
func (r *runtimeFit) descend() error {
	total := int64(r.opts.Effort * effortWork)
	r.search = r.newSearch()
	if err := r.start(); err != nil {
		return err
	}
	done := r.first()
	defer func() { done() }()
	above := r.points[0].arena // budgets of memopt's arena: one too high, and one low enough
	fits := int64(-1)
	more := true // within graceTime, where plans have the fewest anchors
	for k := int64(runtimeGrid - 1); k > 0 && fits < 0; k-- {
		if r.ctx.Err() != nil && more {
			done()
			done, more = r.first(), false
		}
		if r.ctx.Err() != nil {
			break
		}
		budget := r.points[0].arena / runtimeGrid * k
		found := len(r.points)
		ok, err := r.try(budget, 0)
		switch {
		case err != nil:
			return err
		case ok:
			fits = budget
		case len(r.points) == found:
			k = 1 // there is no such plan, nor a lower one
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

// start tries the plan of Runtime.Start, and tells the search of its runs.
func (r *runtimeFit) start() error {
	if len(r.rt.Start) == 0 {
		return nil
	}
	pt, err := r.checkpointed(r.rt.Start)
	if err != nil {
		return err
	}
	pt.method = "level 1"
	r.points = append(r.points, *pt)
	a, err := r.judge(len(r.points) - 1)
	if err != nil {
		return err
	}
	if a.AnchoredArena <= r.limit {
		r.opts.found()
	}
	return r.search.begin(r.tasks.extras(pt.placements, r.p.Evaluator.Pos), pt.method)
}

// halving looks between a budget of memopt's arena that is low enough and one that is not for the
// highest that is.
type halving struct {
	fits, above int64
	try         func(budget, work int64) (bool, error)
}

// run tries the lower budget again, with more effort, and then bisects the rest.
func (h *halving) run(ctx context.Context, work int64) error {
	budget := h.fits
	for range runtimeHalving {
		if h.above-h.fits <= arena.Alignment || work <= 0 || ctx.Err() != nil {
			break
		}
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
		if r.judged[i], err = r.rt.Anchor(r.points[i].placements); err != nil {
			return nil, err
		}
	}
	return r.judged[i], nil
}

// best is the cheapest point within the limit, then the one with the smaller runtime arena; -1 if no
// point fits.
func (r *runtimeFit) best() int {
	best := -1
	for i, a := range r.judged {
		if a == nil || a.AnchoredArena > r.limit {
			continue
		}
		cost := r.points[i].cost
		if best < 0 || cost < r.points[best].cost ||
			cost == r.points[best].cost && a.AnchoredArena < r.judged[best].AnchoredArena {
			best = i
		}
	}
	return best
}

func (r *runtimeFit) infeasible() error {
	e := &InfeasibleError{Budget: r.limit, LowestArena: math.MaxInt64, LowestLive: math.MaxInt64,
		Object: r.rt.Object, Stopped: r.stopped, Persistent: r.opts.Persistent}
	for _, a := range r.judged {
		if a != nil {
			e.LowestArena = min(e.LowestArena, a.AnchoredArena)
			e.LowestLive = min(e.LowestLive, a.Anchored)
		}
	}
	return e
}
