package planner

import (
	"context"
	"math"
	"slices"
	"time"

	"memopt/graph"
	"memopt/planner/arena"
	"memopt/planner/cluster"
	"memopt/planner/place"
	"memopt/planner/remat"
	"memopt/recompute"
)

// A plan to a budget is the cheapest of a set of plans that fits, and the set does not depend on
// the budget, so that a larger budget does not cost more: for each rung, a whole percentage of the
// baseline peak, one plan is searched for, from what the rung below has come to. Up to ladderTasks
// tasks all rungs up to the budget are searched. In larger graphs they are searched in blocks, each
// by itself, and those up to the budget in two blocks count, that of the budget and the one below:
// there the law holds as far as searches of neighbouring rungs differ by less than the rungs
// themselves.
const (
	rungs       = 100
	ladderTasks = 1000
	blockSize   = 2
	// rungSlack keeps a rung below the same percentage computed with another rounding.
	rungSlack = 64
	// packTries is how often a rung is searched again with less, where the layout took more than
	// the live bytes.
	packTries = 3
	// lowestWork is the least counted work for the lowest peak: what can fit should be found with
	// little effort, too.
	lowestWork = 2_000_000
	// effortWork is the counted work that a search does per second of effort, in all its rungs
	// together.
	effortWork = 5_000_000
)

// Budget is a limit that a plan keeps at the least cost. Total, Share and Arena exclude each other;
// without any there must be Regions.
type Budget struct {
	Total   int64    // bytes of inputs, weights and the arena together; 0: none
	Share   float64  // of the baseline peak: bounds the bytes of the arena; 0: none
	Arena   int64    // bytes of the arena; 0: none
	Regions []Region // limits of parts of the graph
	// Clusters says that only what a configuration of ONNX Runtime can express may be chosen.
	Clusters bool
	// Runtime says that what counts is the arena of stock ONNX Runtime at default settings, as
	// simulated, with the anchors that the plan's file would have; a share is one of what it takes
	// for the graph as it is. It excludes Clusters.
	Runtime bool
	Solver  string // "auto" or "", "greedy" (the first plan that fits) or "lns" (without dynamic programming)
	Seed    int64  // of random choices
	// Effort is how many seconds the search should take on a usual core: its work is counted, so
	// that the plan does not depend on the machine. 0 asks for the first plan that fits.
	Effort float64
	// Limit is when the search stops with the best plan so far, counted from the call of Make and
	// all that it does included; 0: none. For the first plan that fits there is leastTime in any
	// case.
	Limit time.Duration
	// Found, where it is not nil, is told by the search that it has a plan that fits, whatever ends
	// it from then on.
	Found func()
}

func (b *Budget) found() {
	if b.Found != nil {
		b.Found()
	}
}

// Region limits what is stashed by nodes with certain names.
type Region struct {
	Glob  string // of node names
	Bytes int64  // that these nodes' outputs may take at the end of the forward half
}

// bytes is the most that the plan's arena may take, in bytes.
func (b *Budget) bytes(p *Plan) int64 {
	switch {
	case b.Total > 0:
		return b.Total - p.Persistent
	case b.Share > 0:
		return int64(b.Share * float64(p.Base.Peak.Bytes))
	case b.Arena > 0:
		return b.Arena
	}
	return math.MaxInt64
}

// point is a plan of the set.
type point struct {
	extras     []remat.Extra
	placements []recompute.Placement
	cost       int64 // of the extra runs, in units of the search's graph
	live       int64
	arena      int64
	layout     *arena.Layout // which the plan takes over: later there may be less time for one as good
	method     string
}

// budgeter searches for plans of one graph.
type budgeter struct {
	ctx    context.Context
	start  time.Time
	p      *Plan
	opts   *Budget
	budget int64 // bytes of the arena
	tasks  *tasks
	forced []remat.Extra // that keep the regions within their limits
	limits []region
	points []point
	share  float64                // of the time, for what climb does
	atPeak map[graph.ValueID]bool // roots of what the node at the plan's peak reads; nil until somebody asks
}

func (p *Plan) newBudgeter(ctx context.Context) *budgeter {
	opts := p.Options.Budget
	return &budgeter{ctx: ctx, start: p.Options.began, p: p, opts: opts, budget: opts.bytes(p), share: searchShare,
		tasks: newTasks(p, p.NodeSeconds(), p.Options.Workspace, arena.Align)}
}

// fitBudget makes the cheapest plan whose arena is within the budget the plan. The error is an
// *UnfitError where none was found.
func (p *Plan) fitBudget(ctx context.Context) (*selection, error) {
	if err := p.needSizes(); err != nil {
		return nil, err
	}
	if p.Options.Budget.Runtime {
		return p.fitRuntime(ctx)
	}
	if p.Options.Budget.Clusters {
		return p.fitClusters(ctx)
	}
	b := p.newBudgeter(ctx)
	best, err := b.fit()
	if err != nil {
		return nil, err
	}
	p.packed = best.layout
	sel, err := p.takePlacements(best.placements)
	if err != nil {
		return nil, err
	}
	p.Solver, p.budgeter = best.method, b
	b.bound(best)
	if len(best.extras) > 0 {
		p.Next = b.next(best)
	}
	return sel, nil
}

// fitClusters is fitBudget for what a configuration can say.
func (p *Plan) fitClusters(whole context.Context) (*selection, error) {
	ctx := whole
	if p.Options.Budget.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, p.Options.began.Add(p.Options.Budget.Limit))
		defer cancel()
	}
	sel, err := p.selectClusters(ctx, p.Options.Budget.bytes(p), cluster.Work(len(p.Analysis.Order)))
	if err != nil {
		return nil, err
	}
	p.Solver, p.Stopped = "clusters", ctx.Err() != nil && whole.Err() == nil
	return sel, p.use(sel)
}

// The parts of the time by which the search for the plan ends, and that for the lowest arena where
// none fits; the rest is for the bound.
const (
	searchShare = 0.7
	lowestShare = 0.9
)

// leastTime is what the search for a first plan may take however short the limit is: that one fits
// is worth more than a moment.
const leastTime = 2 * time.Second

// within limits what is done from now on to a part of the time. Without a limit it does nothing.
func (b *budgeter) within(share float64) (done func()) {
	return b.until(time.Duration(share * float64(b.opts.Limit)))
}

// first limits the search for a first plan.
func (b *budgeter) first() (done func()) { return b.until(max(b.opts.Limit, leastTime)) }

// until ends what is done from now on so long after the start, unless there is no limit at all.
// That it did end something is noted in the plan.
func (b *budgeter) until(d time.Duration) (done func()) {
	if b.opts.Limit <= 0 {
		return func() {}
	}
	whole := b.ctx
	ctx, cancel := context.WithDeadline(whole, b.start.Add(d))
	b.ctx = ctx
	return func() {
		b.p.Stopped = b.p.Stopped || ctx.Err() != nil && whole.Err() == nil
		cancel()
		b.ctx = whole
	}
}

// fit returns the cheapest plan that is found within the budget.
func (b *budgeter) fit() (*point, error) {
	if err := b.limitRegions(); err != nil {
		return nil, err
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
	if err := b.descend(); err != nil {
		return nil, err
	}
	if best := b.cheapest(b.budget); best != nil {
		return best, nil
	}
	return nil, b.unfit()
}

func (b *budgeter) cheapest(budget int64) *point { return b.cheapestOf(b.points, budget) }

// cheapestOf returns the cheapest plan within a budget, of equal ones that with the smaller arena,
// or nil.
func (b *budgeter) cheapestOf(points []point, budget int64) *point {
	var best *point
	for i := range points {
		pt := &points[i]
		if pt.arena <= budget && (best == nil || pt.cost < best.cost || pt.cost == best.cost && pt.arena < best.arena) {
			best = pt
		}
	}
	return best
}

// work is the counted work of one question besides the search: a bound, or the lowest peak.
func (b *budgeter) work() int64 { return int64(max(b.opts.Effort, 0.1) * effortWork) }

// unfit says how low the search came.
func (b *budgeter) unfit() error {
	e := &UnfitError{Budget: b.budget, LowestArena: b.smallest(), LowestLive: math.MaxInt64}
	done := b.within(1)
	e.LowerBound = max(0, b.peakBound(b.work())-(arena.Alignment-1))
	done()
	e.Stopped = b.p.Stopped
	if b.opts.Total > 0 {
		e.Persistent = b.p.Persistent
	}
	for i := range b.points {
		e.LowestLive = min(e.LowestLive, b.points[i].live)
	}
	return e
}

// Bound is what is known of the cheapest plan.
type Bound struct {
	Overhead float64 `json:"overhead_lower_bound"` // no plan in this order costs less, as a share of a step
	Gap      float64 `json:"gap"`                  // between the plan's step and the bound's, as a share of the plan's
	Optimal  bool    `json:"optimal"`
}

// bound asks for a lower bound of the plan's cost.
func (b *budgeter) bound(best *point) {
	stopped := b.p.Stopped
	done := b.within(1)
	least := int64(0)
	if len(best.extras) > 0 && !b.huge() {
		least = min(b.tasks.loose.CostBound(b.ctx, rounded(b.budget), b.work()), best.cost)
	}
	done()
	b.p.Stopped = stopped // the bound is what is said of it
	step := b.stepCost()
	b.p.Bound = &Bound{Optimal: best.cost == least}
	if step > 0 {
		b.p.Bound.Overhead = float64(least) / step
		b.p.Bound.Gap = float64(best.cost-least) / (step + float64(best.cost))
	}
}

// stepCost is the cost of a step of the graph as it is.
func (b *budgeter) stepCost() float64 {
	step := 0.0
	for i := range b.tasks.graph.Tasks {
		step += float64(b.tasks.graph.Tasks[i].Cost)
	}
	return step
}

// takePlacements makes placements the plan, whichever candidates they belong to.
func (p *Plan) takePlacements(placements []recompute.Placement) (*selection, error) {
	a := p.Analysis
	sel := newSelection()
	again := make([]bool, len(a.Graph.Nodes))
	for _, pl := range placements {
		def := a.Graph.Values[pl.Value].Def
		if cs := a.OfEntry(def); len(cs) > 0 && !again[def] {
			again[def] = true
			sel.add(a, cs[0])
			sel.requested[a.Candidates[cs[0]].Cluster] = -1
		}
	}
	slices.Sort(sel.chosen)
	t := &place.Trial{Placements: placements}
	if p.Sizes != nil {
		var err error
		if t, err = p.bench.Simulate(placements); err != nil {
			return nil, err
		}
	}
	p.adopt(t)
	return sel, nil
}
