package remat

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Solution is a schedule for a Problem with its bounds.
type Solution struct {
	Steps      []Step
	Cost, Base float64 // of the schedule, and of computing every node once
	Peak       int64   // with the values that live throughout

	// CostLowerBound is a cost that no schedule undercuts: with first computes in any order if
	// AnyOrder is set, else in the given one.
	CostLowerBound float64
	AnyOrder       bool
	PeakLowerBound int64 // no schedule has a lower peak
	Optimal        bool  // CostLowerBound is reached
	InOrder        bool  // first computes, views aside, keep the given order
	Solver         string

	// Certificate is why CostLowerBound, or a part of it, holds; nil where no extra run is proved necessary by a cut.
	Certificate *Certificate
}

// Solve looks for a cheap schedule within the budget, as the function Solve does for an Instance.
// Costs are counted in whole parts of about 2^-50 of their total.
func (p *Problem) Solve(ctx context.Context, opts Options) (*Solution, error) {
	local := *p
	if opts.Budget > 0 {
		local.Budget = opts.Budget
	}
	if err := local.Validate(); err != nil {
		return nil, err
	}
	if local.Budget == 0 {
		return nil, fmt.Errorf("remat: the budget is 0 bytes: it must be positive")
	}
	s := newProblemSolver(ctx, &local, opts)
	if err := s.checkSolver(); err != nil {
		return nil, err
	}
	if s.low > s.budget {
		return nil, s.infeasible()
	}
	s.run()
	return s.solution()
}

// OnePassPeak is the peak, in bytes, of computing every node once in the given order, with the values that live
// throughout; 0 for a problem that is not valid.
func (p *Problem) OnePassPeak() int64 {
	if p.Validate() != nil {
		return 0
	}
	f := fold(p)
	f.arrange(f.real)
	_, peak, err := p.Simulate(f.steps(f.sequence(nil)))
	if err != nil {
		return 0
	}
	return peak
}

// problemSolver is one call of Problem.Solve.
type problemSolver struct {
	*folded
	ctx    context.Context
	opts   Options
	budget int64    // without the values that live throughout
	kin    *kinship // of the tasks in the given order; nil where that is fixed
	low    int64    // no schedule has a lower peak, without the values that live throughout
	lowest int64    // peak of any schedule found
	work   int64

	arms   []*arm  // the best first
	base   int64   // cost of all first runs, as the search counts it
	best   []int32 // nodes in the order of their computes; nil before the first schedule
	cost   int64
	order  []int32 // of first computes of the best
	method string
	bound  int64 // on the cost; see Solution.AnyOrder
	alone  proof
}

func newProblemSolver(ctx context.Context, p *Problem, opts Options) *problemSolver {
	s := &problemSolver{folded: fold(p), ctx: ctx, opts: opts, budget: p.Budget - p.Resident,
		lowest: math.MaxInt64, cost: math.MaxInt64}
	for _, v := range s.real {
		s.base += s.folded.cost[v]
	}
	s.arrange(s.real)
	relaxed := s.relaxed()
	if p.InOrder {
		s.low = relaxed.PeakBound(ctx, boundWork)
		return s
	}
	s.kin = newKinship(relaxed, s.eachEdge)
	if s.large() {
		s.low = max(s.kin.lastPeak(), s.kin.ownPeak())
	} else {
		s.low = s.kin.anyPeak(ctx, boundWork)
	}
	return s
}

// mostBefore is the most tasks whose bounds in any order are looked for before the first schedule.
const mostBefore = 20_000

func (s *problemSolver) large() bool { return len(s.graph.Tasks) > mostBefore }

// mostReordered is the most tasks whose first computes are tried in other orders than the given one: an order takes
// about 1 kB of memory a task.
const mostReordered = 300_000

func (s *problemSolver) reorders() bool { return !s.p.InOrder && len(s.graph.Tasks) <= mostReordered }

// eachEdge visits the ordered pairs of tasks beyond those of values: makers of the inputs of views
// besides their bases, and both tasks of one node.
func (s *problemSolver) eachEdge(visit func(from, to int32) bool) {
	for v, deps := range s.deps {
		for _, u := range deps {
			if !visit(s.task[u], s.task[v]) {
				return
			}
		}
	}
	for t, v := range s.node {
		if v < 0 && !visit(int32(t)-1, int32(t)) {
			return
		}
	}
}

// checkSolver tells why a solver cannot take the problem.
func (s *problemSolver) checkSolver() error {
	switch name := s.opts.Solver; name {
	case "", "auto", "greedy", "lns":
	case "exact", "chain":
		return fmt.Errorf("remat: the solver %s is not for instances of version 2: use auto or lns", name)
	default:
		return fmt.Errorf("remat: there is no solver %q: it must be auto, greedy, lns, exact or chain", name)
	}
	return nil
}

func (s *problemSolver) infeasible() error {
	e := &InfeasibleError{Budget: s.p.Budget, PeakLowerBound: s.low + s.p.Resident}
	if s.lowest < math.MaxInt64 {
		e.LowestPeak = s.lowest + s.p.Resident
	}
	return e
}

func (s *problemSolver) run() {
	s.bound = s.base
	a := s.add(s.real)
	over := a.search.known[0].Peak > s.budget
	if s.kin != nil && s.large() { // its bound takes longer than a first schedule
		s.turn(0)
	}
	if over {
		s.costBound(false)
	}
	if s.reorders() && !s.met() {
		s.addOrders()
	}
	if s.opts.Solver != "greedy" && !s.ended() {
		s.addSeeds(a)
	}
	for slice := int64(0); !s.ended() && s.turn(slice); slice = max(sliceWork, slice+slice/2) {
		if slice == 0 && s.arms[0] != a && !s.ended() {
			s.addSeeds(s.arms[0])
		}
		if slice == 0 && s.kin != nil && s.bound > s.base && !s.ended() {
			s.costBound(true) // behind the first schedules, since it takes as long as they do
		}
	}
}

// costBound looks for a lower bound on the cost; see anyCost for tight.
func (s *problemSolver) costBound(tight bool) {
	extra, work := max(0, s.bound-s.base), boundWork+boundPart*int64(len(s.graph.Tasks))
	if s.p.InOrder {
		extra, s.alone = s.relaxed().costProof(s.ctx, s.budget, work)
	} else {
		extra = s.kin.anyCost(s.ctx, s.budget, work, extra, tight)
		s.alone = s.kin.alone
	}
	s.bound = s.base + min(extra, math.MaxInt64-s.base)
}

// met tells whether the best schedule cannot be improved, or is enough.
func (s *problemSolver) met() bool { return s.cost <= s.bound || s.opts.First && s.best != nil }

// ended reports whether the work or the time is used up, or the search is met.
func (s *problemSolver) ended() bool {
	return s.met() || s.opts.Nodes > 0 && s.work >= s.opts.Nodes || s.ctx.Err() != nil
}

// solution puts the answer together and has it checked.
func (s *problemSolver) solution() (*Solution, error) {
	if s.best == nil {
		return nil, s.infeasible()
	}
	r := &Solution{Steps: s.steps(s.best), Base: s.p.BaseCost(), PeakLowerBound: s.low + s.p.Resident, Solver: s.method}
	var err error
	if r.Cost, r.Peak, err = s.p.Simulate(r.Steps); err != nil {
		return nil, err
	}
	if r.Peak > s.p.Budget {
		return nil, fmt.Errorf("remat: the peak of %d bytes is above the budget of %d", r.Peak, s.p.Budget)
	}
	r.CostLowerBound = r.Base
	extra := s.bound - s.base
	if s.scale != 1 {
		extra -= int64(len(s.real)) // a unit by node for the rounding
	}
	r.CostLowerBound += max(0, float64(extra)) / s.scale
	r.CostLowerBound = min(r.CostLowerBound, r.Cost)
	r.Certificate = s.certificate(r.Base)
	r.AnyOrder = !s.p.InOrder || r.CostLowerBound == r.Base
	if r.Optimal = s.cost <= s.bound; r.Optimal {
		r.CostLowerBound = r.Cost
	}
	r.InOrder = slices.Equal(s.order, s.real)
	if s.opts.RequireOptimal && !r.Optimal {
		return r, ErrNotOptimal
	}
	return r, nil
}

// certificate is the best proof of one moment, in the unit of the problem; nil where there is none.
func (s *problemSolver) certificate(base float64) *Certificate {
	extra := s.alone.extra
	if s.scale != 1 {
		extra -= int64(len(s.real)) // as in solution
	}
	if extra <= 0 || s.node[s.alone.t] < 0 || s.p.Nodes[s.node[s.alone.t]].View {
		return nil
	}
	return &Certificate{Node: s.node[s.alone.t], Price: s.alone.price / s.scale, Budget: s.p.Budget,
		AnyOrder: !s.p.InOrder, Bound: base + float64(extra)/s.scale}
}
