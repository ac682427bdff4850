// Package budget finds the cheapest plan that fits a budget of bytes.
//
// Any node that can be replayed may be recomputed, in either half. The graph becomes a problem of package remat,
// which searches and proves; its answers become placements, which an evaluator tries and package arena packs.
// The set of searched plans does not depend on the budget, which only picks from it, so that a larger budget
// does not cost more. Counted work ends a search, so that a plan does not depend on the machine; a time limit or
// a context ends it with the best plan so far.
//
// # Budget
//
// Every node of either half that can be replayed may be recomputed, not only those of clusters. Nodes that write
// into the buffer of a state are excluded, and readers of such a buffer may be recomputed only before it is
// overwritten. The graph becomes a remat.Graph (tasks.go): a task per node in order, with views resolved to
// their roots, in-place writing and workspaces kept; its simulator and that of graph/live agree to the byte
// where parts are copied, and a test holds that. remat.Search finds cheap lists of extra runs, for example "node
// 7 once more before node 40", with forward nodes alone first (halves.go); extras.go turns them into placements
// and adds the clones of views; the simulator and the layout judge. Values inside subgraphs lie behind the
// values of the arena (live.Timeline.Inside) and count once in peaks of live bytes, in totals and against a
// budget. Bounds refer to tasks.loose, a relaxation that permits every recomputation a placement may name, and
// to sizes rounded up as in an arena; they are held against brute force (bruteforce_test.go) and against plans
// of every kind (bounds_test.go). For an infeasible budget, lowest.go looks for the smallest arena. --select
// clusters searches configurations instead (planner/cluster), --budget-for adds minimum cuts of the limited
// bytes (stashlimit.go), --budget-in ort judges plans by simulating their anchored files in stock ONNX Runtime
// (runtime.go), --order memory looks for a better order first (planner/order) and takes it where its plan is no
// worse than that in the file's order (planner/orders.go), and layers.go computes the cost of checkpointing
// whole layers.
package budget

import (
	"context"
	"iter"
	"math"
	"time"

	"memopt/graph/live"
	"memopt/internal/timelimit"
	"memopt/planner/anchor"
	"memopt/planner/arena"
	"memopt/planner/place"
	"memopt/planner/remat"
	"memopt/recompute"
)

// A plan for a budget is the cheapest fitting plan of a set that does not depend on the budget, so that a larger
// budget does not cost more. For each rung, a whole percentage of the baseline peak, one plan is searched for,
// starting from the result of the rung below. Up to ladderTasks tasks, all rungs up to the budget are searched.
// Larger graphs are searched in independent blocks of rungs, and two blocks count, that of the budget and the
// one below: there the rule holds if searches of neighbouring rungs differ by less than the rungs themselves.
const (
	rungs       = 100
	ladderTasks = 1000
	blockSize   = 2
	// rungSlack keeps a rung below the same percentage computed with another rounding.
	rungSlack = 64
	// packTries is how often a rung is searched again with less, where the layout took more than
	// the live bytes.
	packTries = 3
	// lowestWork is the least counted work for the lowest peak, so that feasible budgets are recognized even
	// with little effort.
	lowestWork = 2_000_000
	// effortWork is the counted work that a search does per second of effort, in all its rungs
	// together.
	effortWork = 5_000_000
)

// Problem is a graph to plan to budgets.
type Problem struct {
	Evaluator *place.Evaluator // with sizes
	Base      *live.Timeline   // of the unchanged graph
	Seconds   []float64        // seconds of one execution, by node
	// Checkpoints are lists of candidates of the analysis that leave fewer and fewer stashes, tried first in
	// huge graphs; nil means no such lists.
	Checkpoints iter.Seq[[]int]
	// Kept is by node the reason not to recompute it, or ""; nil means that all nodes may be recomputed. Forced
	// are nodes that must be. Every plan obeys, and bounds are those of plans that do.
	Kept   []string
	Forced []Forced
}

// Options are the limits of a plan and the effort of the search. The zero value asks for the first plan found
// whose arena has no bytes.
type Options struct {
	Bytes       int64        // of the arena; math.MaxInt64: no limit
	Lent        Lent         // further bytes of values that move to another memory and back
	StashLimits []StashLimit // limits of the bytes that parts of the graph stash
	// Persistent is the bytes of inputs and weights if the budget included them, for error messages; else 0.
	Persistent int64
	// Solver is "auto" or "", "greedy" (the first plan that fits) or "lns" (without dynamic
	// programming).
	Solver string
	Seed   int64 // of random choices
	// Effort is how many seconds the search should take on a typical core: its work is counted, so
	// that the plan does not depend on the machine. 0 asks for the first plan that fits.
	Effort float64
	// At spends all work at the budget itself instead of at rungs: then a larger budget may cost more.
	At bool
	// First is the counted work for a first plan; 0 searches until there is one. Brief stops at that plan: an
	// infeasible budget is not analysed further, and the least cost is not bounded.
	First int64
	Brief bool
	// Found, if not nil, is called when there is a plan that fits; from then on, ending the search
	// still yields a plan.
	Found func()
	// Progress, if not nil, is called whenever the search has tried another plan.
	Progress func(Progress)
}

// Progress is the state of a search so far.
type Progress struct {
	// Fits is set once a plan fits; Overhead is the cost of the cheapest one, as a share of a step.
	Fits     bool
	Overhead float64
	// LowestArena is the smallest arena of all plans, in bytes.
	LowestArena int64
}

func (o *Options) found() {
	if o.Found != nil {
		o.Found()
	}
}

// StashLimit limits the bytes stashed by nodes with certain names.
type StashLimit struct {
	Glob  string // of node names
	Bytes int64  // that these nodes' outputs may take at the end of the forward half
}

// point is a plan of the set.
type point struct {
	extras     []remat.Extra
	placements []recompute.Placement
	cost       int64 // of the extra runs, in units of the search's graph
	live       int64
	arena      int64
	layout     *arena.Layout // which the plan takes over: there may be no time for one as good
	method     string
}

// Answer is the cheapest plan that was found within a budget. It is complete and is not changed
// afterwards.
type Answer struct {
	Placements []recompute.Placement
	// Layout is that of the arena. Take it over: there may be too little time to find an equally
	// good one.
	Layout  *arena.Layout
	Method  string // that found the plan
	Stopped bool   // the time limit ended the search for it
	Bound   Bound  // of its cost
	// Waits is the time that a step with Options.Lent is expected to wait for copies, as a share of a step.
	Waits float64
	Lower *Lower // the cheapest plan found with less memory; nil means no such plan was found
	// Runtime is the memory of the plan's file in stock ONNX Runtime; nil unless the budget was for that.
	Runtime *anchor.Anchoring
	// Left are the nodes of Problem.Forced that no plan for a budget can recompute.
	Left []Left

	tasks   *tasks
	seconds []float64 // by node
	bytes   int64     // of the arena that the plan was to fit; explanations compare with it
}

// Fit returns the cheapest plan found whose arena is within the budget. A context that is done ends the search
// with the best plan so far; its deadline, if it has one, is shared out among the search for the plan, that for
// the lowest arena, and the bound. A deadline that package timelimit has set leaves the search for a first plan
// graceTime in any case, and counted work alone where it had passed when the run began and Effort is 0. The
// error is an *InfeasibleError where no plan was found, wraps ErrStashLimit, or is the simulator's.
func Fit(ctx context.Context, p *Problem, o *Options) (*Answer, error) {
	b := newBudgeter(ctx, p, o)
	if o.Lent.Link.BytesPerSecond > 0 {
		return b.fitMoved()
	}
	best, err := b.fit()
	if err != nil {
		return nil, err
	}
	if b.opts.Brief {
		return b.answer(best), nil
	}
	if best, err = b.packed(best); err != nil {
		return nil, err
	}
	a := b.answer(best)
	a.Bound = b.bound(best)
	if len(best.extras) > 0 {
		a.Lower = b.lower(best)
	}
	return a, nil
}

// packed packs the arena of a point with all effort.
func (b *budgeter) packed(pt *point) (*point, error) {
	if pt.layout.Bytes <= pt.layout.LowerBound || pt.layout.Final || b.ctx.Err() != nil {
		return pt, nil
	}
	e, err := b.p.Evaluator.Simulate(pt.placements)
	if err != nil {
		return nil, err
	}
	out := *pt
	if l := e.Layout(b.ctx); l.Bytes < out.arena {
		out.layout, out.arena = l, l.Bytes
	}
	return &out, nil
}

// answer makes an answer of a point.
func (b *budgeter) answer(best *point) *Answer {
	return &Answer{Placements: best.placements, Layout: best.layout, Method: best.method,
		Stopped: b.stopped, Left: b.left, seconds: b.p.Seconds, tasks: b.tasks, bytes: b.budget}
}

// budgeter searches for plans of one graph.
type budgeter struct {
	ctx     context.Context
	p       *Problem
	opts    *Options
	budget  int64 // bytes of the arena
	runtime bool  // the runtime's arena counts in place of that budget
	tasks   *tasks
	forced  []remat.Extra // that keep the stash limits
	left    []Left        // forced nodes that cannot be recomputed in time
	limits  []stashLimit
	points  []point
	began   time.Time
	share   float64 // of the time, for climb
	stopped bool    // the time limit ended something
	// ruledOut is the highest lower bound of all arenas that is known, in bytes.
	ruledOut int64
	// quick is set if the time was up before the run began: the quickest answer counts.
	quick bool
	tried *halves // that looked for a first plan; nil before that
	// fixedCost is the cost of the runs that every plan must have.
	fixedCost int64
}

func newBudgeter(ctx context.Context, p *Problem, o *Options) *budgeter {
	return &budgeter{ctx: ctx, p: p, opts: o, budget: o.Bytes, share: searchShare, began: time.Now(),
		quick: !o.Brief && o.Effort <= 0 && timelimit.Spent(ctx),
		tasks: newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State)}
}

// The shares of the time that end the search for the plan, and the search for the lowest arena of an infeasible
// budget; the rest is for the bound.
const (
	searchShare = 0.7
	lowestShare = 0.9
)

// graceTime is the time that the search for a first plan may take, however short the limit is: a plan that
// fits is worth the wait.
const graceTime = 200 * time.Millisecond

// within limits the following work to a part of the time. Without a deadline it has no effect.
func (b *budgeter) within(share float64) (done func()) {
	end, ok := b.ctx.Deadline()
	if !ok {
		return func() {}
	}
	return b.limited(context.WithDeadline(b.ctx, b.began.Add(time.Duration(share*float64(end.Sub(b.began))))))
}

// quickWork is the counted work of the quickest answer, for a number of tasks: together with reading and
// simulating the graph, a third of a second up to 15,000 of them.
func quickWork(tasks int) int64 {
	return max(quickMost-quickPart*int64(tasks), quickLeast+quickEach*int64(tasks))
}

const (
	quickMost, quickPart  = 3_600_000, 130
	quickLeast, quickEach = 1_000_000, 30
	// fitShare is the part of the counted work that is left for each search: its answer has to be packed.
	fitShare, layoutShare = 0.7, 0.3
	// quickTries is how often it searches again with less, where the layout, which is a poor one, took too much.
	quickTries = 6
)

// counted limits the following work to a part of the counted work that is left, where that is limited.
func (b *budgeter) counted(share float64) (done func()) {
	left := timelimit.Left(b.ctx)
	if left == math.MaxInt64 {
		return func() {}
	}
	return b.limited(timelimit.Counted(b.ctx, int64(share*float64(left))))
}

// first limits the search for a first plan: to its counted work where no more than that was asked for
// and no time given, else to the time, or to graceTime where less is left.
func (b *budgeter) first() (done func()) {
	whole := timelimit.Without(b.ctx)
	end, ok := b.ctx.Deadline()
	switch {
	case !ok:
		return func() {}
	case b.opts.Brief || whole == b.ctx:
		return b.limited(context.WithCancel(b.ctx))
	case b.quick && !b.huge():
		return b.limited(timelimit.Counted(whole, quickWork(len(b.tasks.graph.Tasks))))
	case b.quick:
		return b.limited(context.WithCancel(whole))
	}
	if grace := time.Now().Add(graceTime); end.Before(grace) {
		end = grace
	}
	return b.limited(context.WithDeadline(whole, end))
}

// limited does the following work in a context, and notes whether its deadline ended anything.
func (b *budgeter) limited(ctx context.Context, cancel context.CancelFunc) (done func()) {
	whole := b.ctx
	b.ctx = ctx
	return func() {
		b.stopped = b.stopped || timelimit.Ended(ctx)
		cancel()
		b.ctx = whole
	}
}

// fit returns the cheapest plan that is found within the budget.
func (b *budgeter) fit() (*point, error) {
	if err := b.demand(); err != nil {
		return nil, err
	}
	if err := b.applyLimits(); err != nil {
		return nil, err
	}
	if b.ruledOut = b.need(); b.ruledOut > b.budget {
		return nil, b.impossible()
	}
	if err := b.add(&remat.Answer{Method: "order"}); err != nil {
		return nil, err
	}
	if b.points[0].arena > b.budget {
		if b.huge() {
			if err := b.checkpoints(); err != nil {
				return nil, err
			}
		}
		if err := b.climb(); err != nil {
			return nil, err
		}
	}
	if best := b.cheapest(b.budget); best != nil {
		return best, nil
	}
	if b.ruledOut > b.budget {
		return nil, b.impossible()
	}
	if b.opts.Brief {
		return nil, b.reached()
	}
	if err := b.descend(); err != nil {
		return nil, err
	}
	if best := b.cheapest(b.budget); best != nil {
		return best, nil
	}
	return nil, b.infeasible()
}

func (b *budgeter) cheapest(budget int64) *point { return b.cheapestOf(b.points, budget) }

// cheapestOf returns the cheapest plan within a budget, of equally cheap ones the one with the
// smaller arena, or nil.
func (b *budgeter) cheapestOf(points []point, budget int64) *point {
	var best *point
	for i := range points {
		pt := &points[i]
		if pt.arena <= budget && (best == nil || pt.cost < best.cost ||
			pt.cost == best.cost && pt.arena < best.arena) {
			best = pt
		}
	}
	return best
}

// work is the counted work of one question besides the search: a bound, or the lowest peak.
func (b *budgeter) work() int64 { return int64(max(b.opts.Effort, 0.1) * effortWork) }

// need is Need of the problem.
func (b *budgeter) need() int64 { return b.tasks.need(b.p) }

// need is a lower bound on the arena of any plan: the most that one node needs. Values inside subgraphs
// counts in the timeline's bound, and lies in no arena.
func (t *tasks) need(p *Problem) int64 {
	least := max(0, t.loose.Need()-(arena.Alignment-1))
	if p.Evaluator.Sizes.Inner == nil {
		least = max(least, p.Base.LowerBound)
	}
	return least
}

// Need is a number of bytes that no arena of a plan gets below, since a step takes them, wherever other values are.
func Need(p *Problem) int64 {
	return newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State).need(p)
}

// impossible is the error of a budget that a lower bound rules out before any search.
func (b *budgeter) impossible() error {
	return &InfeasibleError{Budget: b.budget, LowerBound: b.ruledOut, Persistent: b.opts.Persistent}
}

// infeasible returns the error with the lowest arena and peak reached and the lower bound.
func (b *budgeter) infeasible() error {
	done := b.within(1)
	bound := b.peakBound(b.work()) - (arena.Alignment - 1)
	done()
	e := b.reached()
	e.LowerBound = max(0, bound, b.ruledOut)
	return e
}

// reached says how low the search came.
func (b *budgeter) reached() *InfeasibleError {
	e := &InfeasibleError{Budget: b.budget, LowestArena: b.smallest(), LowestLive: math.MaxInt64,
		Persistent: b.opts.Persistent, Stopped: b.stopped}
	for i := range b.points {
		e.LowestLive = min(e.LowestLive, b.points[i].live)
	}
	return e
}

// Bound is a lower bound on the cost of the cheapest plan.
type Bound struct {
	// Overhead is a share of a step: no plan in this order costs less.
	Overhead float64 `json:"overhead_lower_bound"`
	// Gap lies between the plan's step and the bound's, as a share of the plan's.
	Gap     float64 `json:"gap"`
	Optimal bool    `json:"optimal"`
}

// bound asks for a lower bound of the plan's cost.
func (b *budgeter) bound(best *point) Bound {
	stopped := b.stopped
	done := b.within(1)
	least := b.leastCost(best, b.budget, b.work())
	done()
	b.stopped = stopped // the bound applies to that search
	step := b.tasks.stepCost()
	bound := Bound{Optimal: best.cost == least}
	if step > 0 {
		bound.Overhead = float64(least) / step
		bound.Gap = float64(best.cost-least) / (step + float64(best.cost))
	}
	return bound
}

// leastCost is a lower bound on the cost of every plan within a budget, at most the cost of one.
func (b *budgeter) leastCost(pt *point, budget, work int64) int64 {
	if len(pt.extras) == 0 || b.huge() {
		return min(b.fixedCost, pt.cost)
	}
	least := b.tasks.loose.CostBound(b.ctx, rounded(budget), work)
	return min(min(least, math.MaxInt64-b.fixedCost)+b.fixedCost, pt.cost)
}
