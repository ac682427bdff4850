package planner

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"memopt/graph"
	"memopt/planner/remat"
	"memopt/recompute"
	"memopt/symbolic"
)

// A plan to a budget is the cheapest of a set of plans that fits, and the set does not depend on the
// budget, so that a larger budget does not cost more: for each rung, a whole percentage of the baseline peak,
// one plan is searched for, from what the rung below has come to. Up to ladderTasks tasks all rungs up to the budget are
// searched. In larger graphs they are searched in blocks, each by itself, and those up to the budget in
// two blocks count, that of the budget and the one below: there the law holds as far as searches of
// neighbouring rungs differ by less than the rungs themselves.
const (
	rungs       = 100
	ladderTasks = 1000
	blockSize   = 2
	// rungSlack keeps a rung below the same percentage computed with another rounding.
	rungSlack = 64
	// packTries is how often a rung is searched again with less, where the layout took more than the live bytes.
	packTries = 3
	// lowestWork is the least counted work for the lowest peak: what can fit should be found with little effort, too.
	lowestWork = 2_000_000
	// effortWork is the counted work that a search does per second of effort, in all its rungs together.
	effortWork = 5_000_000
)

// Budget is a limit that a plan keeps at the least cost. Total, Share and Arena exclude each other; without
// any there must be Regions.
type Budget struct {
	Total   int64    // bytes of inputs, weights and the arena together; 0: none
	Share   float64  // of the baseline peak: bounds the bytes of the arena; 0: none
	Arena   int64    // bytes of the arena; 0: none
	Regions []Region // limits of parts of the graph
	// Clusters says that only what a configuration of ONNX Runtime can express may be chosen.
	Clusters bool
	Solver   string // "auto" or "", "greedy" (the first plan that fits) or "lns" (without dynamic programming)
	Seed     int64  // of random choices
	// Effort is how many seconds the search should take on a usual core: its work is counted, so that the
	// plan does not depend on the machine. 0 asks for the first plan that fits.
	Effort float64
	// Limit is when the search stops with the best plan so far; 0: none. The first plan that fits may take longer.
	Limit time.Duration
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
	lowest int64 // live peak that was reached without fitting
}

func (p *Plan) newBudgeter(ctx context.Context) *budgeter {
	opts := p.Options.Budget
	return &budgeter{ctx: ctx, start: time.Now(), p: p, opts: opts, budget: opts.bytes(p), tasks: newTasks(p, p.NodeSeconds(), p.Options.Workspace, align), lowest: math.MaxInt64}
}

// fitBudget makes the cheapest plan whose arena is within the budget the plan. The error is an *UnfitError
// where none was found.
func (p *Plan) fitBudget(ctx context.Context) (*selection, error) {
	if p.Sizes == nil {
		return nil, &symbolic.UnboundError{Symbols: p.Unbound}
	}
	if p.Options.Budget.Clusters {
		if p.Options.Budget.Limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, p.Options.Budget.Limit)
			defer cancel()
		}
		sel, err := p.selectClusters(ctx, p.Options.Budget.bytes(p), p.clusterWork())
		var unfit *UnfitError
		if errors.As(err, &unfit) && p.Options.Budget.Total > 0 {
			unfit.Persistent = p.Persistent
		}
		if err != nil {
			return nil, err
		}
		p.Solver = "clusters"
		return sel, p.use(sel)
	}
	b := p.newBudgeter(ctx)
	best, err := b.fit()
	if err != nil {
		return nil, err
	}
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

// searchShare is the part of the time for the search; the rest is for the bound.
const searchShare = 0.7

// within limits what is done from now on to a part of the time. Without a limit it does nothing.
func (b *budgeter) within(share float64) (done func()) {
	if b.opts.Limit <= 0 {
		return func() {}
	}
	whole := b.ctx
	ctx, cancel := context.WithDeadline(whole, b.start.Add(time.Duration(share*float64(b.opts.Limit))))
	b.ctx = ctx
	return func() {
		cancel()
		b.ctx = whole
	}
}

// fit returns the cheapest plan that is found within the budget.
func (b *budgeter) fit() (*point, error) {
	budget := b.budget
	if err := b.limitRegions(); err != nil {
		return nil, err
	}
	if err := b.add(&remat.Answer{Method: "order"}); err != nil {
		return nil, err
	}
	if b.points[0].arena > budget {
		if err := b.climb(); err != nil {
			return nil, err
		}
	}
	if best := b.cheapest(budget); best != nil {
		return best, nil
	}
	return nil, b.unfit()
}

// climb searches the rungs that count for the budget. A first plan comes at once; where time runs out, the
// cheapest so far is the answer.
func (b *budgeter) climb() error {
	if b.tasks.graph.PeakBound(b.ctx, lowestWork) >= b.budget+Alignment {
		return nil // it is proved that nothing fits
	}
	if b.opts.Effort <= 0 || b.opts.Solver == "greedy" {
		return b.search(b.newSearch(), b.budget, 0)
	}
	if err := b.search(b.newSearch(), b.budget, 0); err != nil {
		return err
	}
	defer b.within(searchShare)()
	first, total := len(b.points), int64(b.opts.Effort*effortWork)
	search := b.blocks
	if len(b.tasks.graph.Tasks) <= ladderTasks {
		search = b.ladder
	}
	if err := search(total); err != nil || b.ctx.Err() != nil {
		return err
	}
	if b.cheapestOf(b.points[first:], b.budget) != nil {
		b.points = slices.Delete(b.points, 1, first) // the first plan depends on the budget
	}
	return nil
}

func (b *budgeter) newSearch() *remat.Search { return remat.NewSearch(b.tasks.graph, b.opts.Seed) }

// ladder searches all rungs up to the budget, from the lowest peak that can be reached on.
func (b *budgeter) ladder(total int64) error {
	s := b.newSearch()
	low, err := s.Lowest(b.ctx, max(total/2, lowestWork))
	if err != nil {
		return err
	}
	if err := b.add(low); err != nil || low.Peak >= b.budget+Alignment {
		return err
	}
	for k := 1; k <= b.top() && b.ctx.Err() == nil; k++ {
		if b.rung(k)+Alignment <= low.Peak {
			continue
		}
		if err := b.search(s, b.rung(k), total/(rungs/2)); err != nil {
			return err
		}
	}
	return b.search(s, b.budget, 0) // what is known between the last rung and the budget
}

// blocks searches the rungs up to the budget in two blocks.
func (b *budgeter) blocks(total int64) error {
	top := b.top()
	var s *remat.Search
	for k := max(1, (top/blockSize-1)*blockSize); k <= top && b.ctx.Err() == nil; k++ {
		if s == nil || k%blockSize == 0 {
			s = b.newSearch()
		}
		if err := b.search(s, b.rung(k), total/(2*blockSize)); err != nil {
			return err
		}
	}
	return nil
}

// top is the last rung within the budget, 0 where there is none.
func (b *budgeter) top() int {
	top := min(int(float64(b.budget)/float64(b.p.Base.Peak.Bytes)*rungs)+1, rungs)
	for top > 0 && b.rung(top) > b.budget {
		top--
	}
	return top
}

// rung is the budget of a rung.
func (b *budgeter) rung(k int) int64 {
	return int64(float64(b.p.Base.Peak.Bytes)*float64(k)/rungs) - rungSlack
}

// search adds the cheapest plan within a budget that a search comes to, if there is one.
func (b *budgeter) search(s *remat.Search, budget, work int64) error {
	target := min(budget, math.MaxInt64-Alignment) + Alignment - 1 // the end of the highest buffer is not rounded up
	for range packTries {
		if chain := b.chain(target, work); chain != nil {
			if err := s.Add(chain, "chain"); err != nil {
				return err
			}
		}
		answer, err := s.Fit(b.ctx, target, work)
		var no *remat.InfeasibleError
		if errors.As(err, &no) {
			b.lowest = min(b.lowest, no.LowestPeak)
			return nil
		}
		if err != nil {
			return err
		}
		if err := b.add(answer); err != nil {
			return err
		}
		pt := &b.points[len(b.points)-1]
		if pt.arena <= budget {
			return nil
		}
		target = min(target, answer.Peak) - (pt.arena - budget)
	}
	return nil
}

// chain asks for an answer by dynamic programming over layers. In graphs with a ladder that takes longer than what it saves.
func (b *budgeter) chain(budget, work int64) []remat.Extra {
	if work == 0 || b.opts.Solver == "lns" || len(b.tasks.graph.Tasks) <= ladderTasks {
		return nil
	}
	return b.tasks.graph.ChainExtras(b.ctx, budget)
}

// add takes an answer of the search into the set.
func (b *budgeter) add(a *remat.Answer) error {
	pt, err := b.point(a)
	if err == nil {
		b.points = append(b.points, *pt)
	}
	return err
}

// point evaluates an answer of the search by the simulator and packs it.
func (b *budgeter) point(a *remat.Answer) (*point, error) {
	pt := &point{extras: b.withForced(a.Extras), cost: a.Cost, method: a.Method}
	if len(b.forced) > 0 {
		pt.cost = 0
		for _, x := range pt.extras {
			pt.cost += b.tasks.graph.Tasks[x.Task].Cost
		}
	}
	pt.placements = b.tasks.placements(pt.extras)
	e, err := b.p.simulate(pt.placements)
	if err != nil {
		return nil, err
	}
	pt.live, pt.arena = e.peak, NewLayout(e.timeline, e.program.Bytes).Bytes
	return pt, nil
}

func (b *budgeter) cheapest(budget int64) *point { return b.cheapestOf(b.points, budget) }

// cheapestOf returns the cheapest plan within a budget, of equal ones that with the smaller arena, or nil.
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

// unfit says how low the search came.
func (b *budgeter) unfit() error {
	e := &UnfitError{Budget: b.budget, LowestArena: math.MaxInt64, LowestLive: b.lowest, LowerBound: b.tasks.graph.PeakBound(b.ctx, int64(max(b.opts.Effort, 0.1)*effortWork))}
	e.LowerBound = max(0, e.LowerBound-(Alignment-1))
	if b.opts.Total > 0 {
		e.Persistent = b.p.Persistent
	}
	if len(b.points) == 1 { // the graph as it is
		if low, err := b.newSearch().Lowest(b.ctx, int64(max(b.opts.Effort, 0.1)*effortWork)); err == nil {
			if err := b.add(low); err != nil {
				return err
			}
		}
	}
	for i := range b.points {
		e.LowestArena, e.LowestLive = min(e.LowestArena, b.points[i].arena), min(e.LowestLive, b.points[i].live)
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
	defer b.within(1)()
	least := int64(0)
	if len(best.extras) > 0 {
		least = min(b.tasks.graph.CostBound(b.ctx, b.budget, int64(max(b.opts.Effort, 0.1)*effortWork)), best.cost)
	}
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

// simulate runs the program of the graph with placements.
func (p *Plan) simulate(placements []recompute.Placement) (*evaluated, error) {
	return newPlacer(p.Analysis, p.Sizes, p.pos, nil, &p.scratch).simulate(p.program, placements)
}

// takePlacements makes placements the plan, whichever candidates they belong to.
func (p *Plan) takePlacements(placements []recompute.Placement) (*selection, error) {
	a := p.Analysis
	sel := newSelection()
	again := map[graph.NodeID]bool{}
	for _, pl := range placements {
		def := a.Graph.Values[pl.Value].Def
		if cs := a.OfEntry(def); len(cs) > 0 && !again[def] {
			again[def] = true
			sel.byEntry[a.Candidates[cs[0]].Entry] = cs[0]
			sel.requested[a.Candidates[cs[0]].Cluster] = -1
			sel.applied[a.Candidates[cs[0]].Cluster]++
		}
	}
	e := &evaluated{placements: placements}
	if p.Sizes != nil {
		var err error
		if e, err = p.simulate(placements); err != nil {
			return nil, err
		}
	}
	p.adopt(e)
	return sel, nil
}
