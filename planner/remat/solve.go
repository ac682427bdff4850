package remat

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

// Options are the options of Solve. The zero value asks for the cheapest schedule that can be found
// before the context ends.
type Options struct {
	Budget int64  // bytes; 0 takes the budget of the instance
	Solver string // "auto" or "", "greedy", "lns", "exact" or "chain"
	Seed   int64  // of the random choices; any value, 0 included
	Nodes  int64  // counted work that ends the search; 0 leaves that to the context

	// First ends the search with the first schedule that is found.
	First bool

	// RequireOptimal makes Solve fail with ErrNotOptimal where the best schedule is not proved
	// to be optimal.
	RequireOptimal bool

	// Progress, if not nil, is called with each better schedule.
	Progress func(Progress)
}

// Progress says how far a search has come.
type Progress struct {
	Cost           int64 // of the best schedule so far
	CostLowerBound int64
	Overhead       float64 // cost beyond that of computing every node once, as a share of it
	Solver         string  // that found it
}

// Result is a schedule and its proven bounds.
type Result struct {
	Schedule
	CostLowerBound int64 // no schedule in the given order is cheaper
	PeakLowerBound int64 // no schedule in the given order has a lower peak
	Optimal        bool  // no schedule in the given order is cheaper than this one
	Solver         string
	InOrder        bool // the first computes keep the order of the instance

	// Certificate is why CostLowerBound, or a part of it, holds; nil where no extra run is proved necessary by a cut.
	Certificate *Certificate
}

// Certificate is a lower bound on the cost that a minimum cut proves, at one moment and one price: when the node is
// computed for the first time, each value that later nodes read is held, for the price of its bytes, or made again.
type Certificate struct {
	Node     int32   // the moment is its first compute
	Price    float64 // cost of a byte
	Budget   int64   // bytes; of a Problem, those that live throughout included
	AnyOrder bool    // the bound is for first computes in any order, else in the given one
	Bound    float64 // no schedule within the budget costs less
}

// ErrNotOptimal is the error for RequireOptimal.
var ErrNotOptimal = fmt.Errorf("remat: the search ended without a proof that the schedule is optimal")

// Solve looks for a cheap schedule within the budget. It returns when its answer is proved to
// be optimal, the work is used up or the context ends; that is no error if there is
// a schedule. Without one it reports an *InfeasibleError. The same input, seed and
// work give the same answer; a deadline only decides where the search ends.
func Solve(ctx context.Context, in *Instance, opts Options) (*Result, error) {
	local := *in
	if opts.Budget > 0 {
		local.Budget = opts.Budget
	}
	if err := local.Validate(); err != nil {
		return nil, err
	}
	switch opts.Solver {
	case "", "auto", "greedy", "lns", "chain":
	case "exact":
		if len(local.Nodes) > exactNodes {
			return nil, tooLarge(opts.Solver, len(local.Nodes), exactNodes)
		}
	default:
		return nil, fmt.Errorf("remat: there is no solver %q: it must be auto, greedy, lns, exact or chain",
			opts.Solver)
	}
	s := newSolver(ctx, newSingle(&local, local.Budget), opts)
	if s.need > s.budget { // no search is needed
		return nil, &InfeasibleError{Budget: s.budget, PeakLowerBound: s.need}
	}
	s.run()
	return s.result(&local)
}

// solver is one call of Solve.
type solver struct {
	*single
	ctx     context.Context
	opts    Options
	rng     *rand.Rand
	bound   int64
	alone   proof
	best    []int32
	cost    int64
	method  string // that found the best
	stage   string // at work
	counted int64  // the cost that count has raised the bound towards
	peak    int64  // the lowest peak of any sequence tried
	work    int64
	prover  prover

	search   *Search   // nil until it is needed
	annealer *annealer // the one of annealFor
}

func newSolver(ctx context.Context, p *single, opts Options) *solver {
	return &solver{
		single: p, ctx: ctx, opts: opts, cost: math.MaxInt64, peak: math.MaxInt64,
		rng: rand.New(rand.NewPCG(uint64(opts.Seed), 0x9e3779b97f4a7c15)),
	}
}

// ended reports whether the work or the time is used up, or the optimum is proved.
func (s *solver) ended() bool {
	return s.cost <= s.bound || s.opts.First && s.best != nil || s.opts.Nodes > 0 && s.work >= s.opts.Nodes ||
		s.ctx.Err() != nil
}

// found takes a sequence of computes that is within the budget.
func (s *solver) found(seq []int32, cost int64) {
	if cost >= s.cost {
		return
	}
	s.best, s.cost, s.method = seq, cost, s.stage
	if s.opts.Progress != nil {
		s.opts.Progress(Progress{Cost: cost, CostLowerBound: s.bound, Overhead: share(cost, s.base), Solver: s.method})
	}
}

// share is the excess of a cost over another, as a share of the latter.
func share(cost, base int64) float64 { return float64(cost-base) / float64(max(1, base)) }

// offer takes a sequence of computes if it is within the budget.
func (s *solver) offer(seq []int32) {
	if seq == nil {
		return
	}
	seq = s.needed(seq)
	peak, valid := s.single.peak(seq)
	if !valid {
		return
	}
	s.peak = min(s.peak, peak)
	if peak > s.budget {
		return
	}
	cost := int64(0)
	for _, v := range seq {
		cost += s.single.cost[v]
	}
	s.found(seq, cost)
}

func (s *solver) run() {
	s.bound = s.single.base
	s.stage = "order"
	plain := make([]int32, s.n)
	for v := range plain {
		plain[v] = int32(v)
	}
	s.offer(plain)
	if s.cost == math.MaxInt64 {
		low, alone := s.costBound(s.ctx, boundWork+boundPart*int64(s.n))
		if s.alone = alone; low < math.MaxInt64 {
			s.bound = max(s.bound, low)
		}
	}
	if s.n <= exactAtOnce && (s.opts.Solver == "" || s.opts.Solver == "auto") {
		s.runExact(math.MaxInt64 / 8)
	}
	switch {
	case s.opts.Solver == "chain":
		s.runChain()
	case s.opts.Solver == "exact":
		s.runGreedy()
		s.runExact(math.MaxInt64 / 8)
	case s.opts.Solver == "greedy" && s.n <= searchNodes:
		s.runGreedy()
	case s.n > searchNodes:
		s.runLarge()
	default:
		s.runSmall()
	}
}

// runSmall is the search for instances that a tape is affordable for.
func (s *solver) runSmall() {
	if s.opts.Solver != "lns" {
		s.runGreedy()
	}
	if s.best == nil && !s.ended() {
		s.runSearch(max(sliceWork, s.opts.Nodes/4))
	}
	s.runAnneal()
}

// runLarge lets a Search and, where the graph is not too large for it, an annealer improve the same
// schedule by turns.
func (s *solver) runLarge() {
	s.runSearch(0)
	s.count()
	slice := max(sliceWork, int64(len(s.best)))
	for ; !s.ended() && s.opts.Solver != "greedy"; slice += slice / 2 {
		left := slice
		if s.opts.Nodes > 0 {
			left = min(left, s.opts.Nodes-s.work)
		}
		s.runSearch(left)
		if s.best != nil && s.n <= tapeNodes && !s.ended() {
			s.annealFor(left)
			s.share()
		}
		s.count()
	}
}

// count raises the bound towards the cost of a new best schedule.
func (s *solver) count() {
	if s.best == nil || s.cost == s.counted || s.cost <= s.bound || s.alone.extra <= 0 || s.ctx.Err() != nil {
		return
	}
	s.counted = s.cost
	b := newBounder(s.ctx, newMoments(s.relaxation()), s.budget, 0)
	s.bound = max(s.bound, s.base+b.counted(s.alone, s.cost-s.base))
}

// runGreedy tries all rules, and random ones while these are worth their time.
func (s *solver) runGreedy() {
	s.stage = "greedy"
	tries, most := max(len(rules), 6400/max(1, s.n)), int64(4) // annealing does better than dear first answers
	if s.opts.Solver == "greedy" {
		tries, most = math.MaxInt, 100
	}
	for i := 0; i < tries && !s.ended(); i++ {
		r := randomRule(s.rng)
		if i < len(rules) {
			r = rules[i]
		}
		limit := min(s.cost, most*s.single.base)
		s.offer(s.greedy(r, s.rng, limit, func() bool { return s.ctx.Err() != nil }))
		s.work += int64(s.n)
	}
}

// runAnneal anneals in rounds, each longer than the one before, by turns from the best
// schedule and from the plain order.
func (s *solver) runAnneal() {
	s.stage = "lns"
	a := newAnnealer(s.single, s.rng, s.found)
	start := int64(0)
	stop := func() bool {
		s.work += a.walked - start
		start = a.walked
		if s.opts.Solver != "lns" {
			s.prove()
		}
		return s.ended()
	}
	if s.best == nil {
		a.seek(stop)
	}
	moves, round := 20000, 0
	if s.search != nil {
		round = 1 // the result of a Search is a narrow place to start from
	}
	for ; !stop(); round++ {
		if round%2 == 0 {
			a.load(s.best)
			a.best = s.cost
			a.anneal(moves, warm, cold, stop)
		} else {
			a.load(nil)
			a.anneal(moves, hot, cold, stop)
		}
		moves += moves / 2
	}
}

// annealFor anneals once from the best schedule, for about so much work.
func (s *solver) annealFor(work int64) {
	s.stage = "lns"
	if s.annealer == nil {
		s.annealer = newAnnealer(s.single, s.rng, s.found)
	}
	a := s.annealer
	start, end := a.walked, a.walked+work
	stop := func() bool {
		s.work += a.walked - start
		start = a.walked
		return a.walked >= end || s.ended()
	}
	a.load(s.best)
	a.best = s.cost
	a.anneal(a.movesFor(work), warm, cold, stop)
	stop()
}

// movesFor is the number of moves that go with so much work, by the work of earlier moves.
func (a *annealer) movesFor(work int64) int {
	if a.moved == 0 {
		return int(work / 32)
	}
	return int(float64(work) * float64(a.moved) / float64(a.walked))
}

// result puts the answer together and has it checked.
func (s *solver) result(in *Instance) (*Result, error) {
	if s.best == nil {
		low := s.need
		return nil, &InfeasibleError{Budget: s.budget, LowestPeak: s.peak, PeakLowerBound: low}
	}
	r := &Result{
		Schedule: Schedule{Steps: s.withFrees(s.best)}, CostLowerBound: s.bound, PeakLowerBound: s.need,
		Optimal: s.cost <= s.bound, Solver: s.method,
	}
	var err error
	if r.Cost, r.Peak, err = Simulate(in, r.Steps); err != nil {
		return nil, err
	}
	if err := Check(in, &r.Schedule); err != nil {
		return nil, err
	}
	r.InOrder = inOrder(r.Steps)
	if s.alone.extra > 0 {
		r.Certificate = &Certificate{Node: s.alone.t, Price: s.alone.price, Budget: s.budget,
			Bound: float64(s.base + s.alone.extra)}
	}
	if s.opts.RequireOptimal && !r.Optimal {
		return r, ErrNotOptimal
	}
	return r, nil
}
