package budget

import (
	"context"
	"math"
	"slices"

	"memopt/graph/op"
	"memopt/planner/anchor"
	"memopt/planner/arena"
	"memopt/planner/remat"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
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
	// Starts are lists of candidates of the analysis whose plans are tried before the search, which starts from them.
	Starts [][]int
	// Session says that the runtime is ORTModule's session. Values share memory there at most as in memopt, sizes are
	// not rounded up, and nodes that read a shape alone run as soon as they can: so there is a lower bound. Simulations
	// take little time: the search makes the same ones whatever the budget is, so that a larger one does not cost more.
	Session bool
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
		if r.ruledOut = r.leastPeak(lowestWork); r.ruledOut > r.limit {
			return 0, r.infeasible()
		}
		look := r.descend
		if r.rt.Session && r.opts.Effort > 0 && r.opts.Solver != "greedy" && !r.huge() {
			look = r.survey
		}
		r.search = r.newSearch()
		if err := r.start(); err != nil {
			return 0, err
		}
		if err := look(); err != nil {
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

// start tries the plans of Runtime.Starts, and tells the search of their runs.
func (r *runtimeFit) start() error {
	for i, chosen := range r.rt.Starts {
		if i > 0 && r.ctx.Err() != nil {
			return nil
		}
		pt, err := r.checkpointed(chosen)
		if err != nil {
			return err
		}
		pt.method = "candidates"
		r.points = append(r.points, *pt)
		a, err := r.judge(len(r.points) - 1)
		if err != nil {
			return err
		}
		if a.AnchoredArena <= r.limit {
			r.opts.found()
		}
		if err := r.search.begin(r.tasks.extras(pt.placements, r.p.Evaluator.Pos), pt.method); err != nil {
			return err
		}
	}
	return nil
}

const (
	// fewRungs are the steps of the first ascent, and of the only one in graphs of more than ladderTasks.
	fewRungs = 20
	// highRungs is how many rungs, one after the other, have a plan above the limit before the last ascent ends.
	highRungs = 3
)

// survey searches budgets of memopt's arena: quick ones on the grid, the lowest peak, and better ones from there on up,
// first in large steps, then in small ones. All plans are simulated. They do not depend on the limit, but for where the
// last ascent ends: the larger the limit, the later. So a larger one has all plans of a smaller one, and a plan that
// costs no more.
func (r *runtimeFit) survey() error {
	if err := r.quickRungs(); err != nil {
		return err
	}
	if r.ctx.Err() != nil && r.best() < 0 {
		return r.descend()
	}
	defer r.within(searchShare)()
	total := int64(r.opts.Effort * effortWork)
	low, err := r.search.Lowest(r.ctx, max(total/4, lowestWork))
	if err != nil {
		return err
	}
	if err := r.add(low); err != nil {
		return err
	}
	if err := r.ascend(low.Peak, fewRungs, fewRungs, total/2); err != nil || len(r.tasks.graph.Tasks) > ladderTasks {
		return err
	}
	return r.ascend(low.Peak, rungs, highRungs, total/2)
}

// ascend searches the rungs of an ascent in so many steps, from a peak on, until so many plans one after the other are
// above the limit. They share the counted work.
func (r *runtimeFit) ascend(from int64, steps, high int, work int64) error {
	over := 0
	for k := 1; k <= steps && over < high && r.ctx.Err() == nil; k++ {
		rung := r.rung(k * rungs / steps)
		if rung+arena.Alignment <= from {
			continue
		}
		fits, err := r.tryAll(rung, work/int64(steps))
		if err != nil {
			return err
		}
		if over++; fits {
			over = 0
		}
	}
	return r.judgeAll()
}

// quickRungs searches the first plans of the grid, from the highest rung on until there is no plan.
func (r *runtimeFit) quickRungs() error {
	done := r.first()
	defer done()
	for k := int64(runtimeGrid - 1); k > 0 && r.ctx.Err() == nil; k-- {
		found := len(r.points)
		if _, err := r.tryAll(r.points[0].arena/runtimeGrid*k, 0); err != nil || len(r.points) == found {
			return err
		}
	}
	return nil
}

// tryAll is try, with all plans simulated that the search makes on the way.
func (r *runtimeFit) tryAll(budget, work int64) (bool, error) {
	fits, err := r.try(budget, work)
	if err != nil {
		return false, err
	}
	return fits, r.judgeAll()
}

// judgeAll simulates all points in the runtime.
func (r *runtimeFit) judgeAll() error {
	for i := range r.points {
		if _, err := r.judge(i); err != nil {
			return err
		}
	}
	return nil
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
		if same := r.same(i); same >= 0 {
			r.judged[i] = r.judged[same]
			return r.judged[i], nil
		}
		var err error
		if r.judged[i], err = r.rt.Anchor(r.points[i].placements); err != nil {
			return nil, err
		}
	}
	return r.judged[i], nil
}

// same is an earlier point with the same extra runs that was simulated; -1 for none.
func (r *runtimeFit) same(i int) int {
	for k := range r.points[:i] {
		if r.judged[k] != nil && r.points[k].extras != nil && slices.Equal(r.points[k].extras, r.points[i].extras) {
			return k
		}
	}
	return -1
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

// infeasible says how low the search came; a bound that rules the limit out leaves no more to say.
func (r *runtimeFit) infeasible() error {
	e := &InfeasibleError{Budget: r.limit, Object: r.rt.Object, Persistent: r.opts.Persistent, LowerBound: r.ruledOut}
	if r.ruledOut > r.limit {
		return e
	}
	e.LowestArena, e.LowestLive, e.Stopped = math.MaxInt64, math.MaxInt64, r.stopped
	for _, a := range r.judged {
		if a != nil {
			e.LowestArena = min(e.LowestArena, a.AnchoredArena)
			e.LowestLive = min(e.LowestLive, a.Anchored)
		}
	}
	done := r.within(1)
	e.LowerBound = max(e.LowerBound, r.leastPeak(r.work()))
	done()
	return e
}

// leastPeak is a lower bound on the peak of every plan in ORTModule's session, for so much counted work; 0 for other
// runtimes.
func (r *runtimeFit) leastPeak(work int64) int64 {
	if !r.rt.Session {
		return 0
	}
	t := newTasks(r.p.Evaluator, r.p.Seconds, func(bytes int64) int64 { return bytes }, r.p.Base.State)
	for place, id := range t.a.Order {
		task, kind := &t.loose.Tasks[place], t.a.Graph.Nodes[id].Kind
		if op.Of(kind).Has(op.ShapeOf) {
			task.Uses = nil // its moment is another one, with fewer values
		}
		if len(ortsim.InPlace(kind)) == 0 {
			task.InPlace = nil
		}
	}
	for v := range t.loose.Values { // the session copies parts
		t.loose.Values[v].Size, t.loose.Values[v].Part = t.graph.Values[v].Size, 0
	}
	return r.boundOf(t, work)
}
