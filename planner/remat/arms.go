package remat

import (
	"cmp"
	"slices"
)

// arm is an order of first computes with the search in it. Orders compete: those whose schedules are
// cheapest get the work, and their schedules suggest further orders.
type arm struct {
	order  []int32
	folded *folded // arranged in that order
	search *Search
	cost   int64     // of the cheapest schedule within the budget, without the first runs; or unknown
	peak   int64     // the lowest of any schedule
	idle   bool      // more work finds no better schedule
	tape   *annealer // nil until it is needed
	found  []int32   // the cheapest sequence of the tape's last turn, in its numbers
	told   int64     // the cost of the schedule that suggested orders last
}

// unknown stands for the cost of an arm without a schedule within the budget.
const unknown = infinite

// mostArms is how many orders go on after each turn.
const mostArms = 4

// add makes an arm of an order, unless there is one.
func (s *problemSolver) add(order []int32) *arm {
	for _, a := range s.arms {
		if slices.Equal(a.order, order) {
			return a
		}
	}
	f := *s.folded
	f.arrange(order)
	a := &arm{order: order, folded: &f, search: NewSearch(f.graph, s.opts.Seed), told: unknown}
	s.arms = append(s.arms, a)
	s.settle(a)
	return a
}

// settle takes over the answers of an arm's search.
func (s *problemSolver) settle(a *arm) {
	a.cost, a.peak = unknown, a.search.known[0].Peak
	s.lowest = min(s.lowest, a.peak)
	best := a.search.within(s.budget)
	if best == nil {
		return
	}
	if a.cost = best.Cost; s.base+a.cost >= s.cost {
		return
	}
	s.best, s.cost, s.order, s.method = a.folded.sequence(best.Extras), s.base+a.cost, a.order, best.Method
	if s.opts.Progress != nil {
		s.opts.Progress(Progress{Cost: s.cost, CostLowerBound: s.bound, Overhead: share(s.cost, s.base),
			Solver: s.method})
	}
}

// addOrders adds the orders that the given one suggests.
func (s *problemSolver) addOrders() {
	late := s.linked(s.real).sink()
	early := s.linked(s.real).hoist()
	s.add(late)
	s.add(early)
	s.add(s.linked(late).hoist())
	s.add(s.linked(early).sink())
}

// addSeeds gives the search of an arm schedules to start from: of other cuts of the moment that proves most, and
// of the dynamic program for chains.
func (s *problemSolver) addSeeds(a *arm) {
	g := a.folded.graph
	add := func(tasks []int32, at int32) { _ = a.search.Add(g.FromCut(tasks, at), "cut") }
	add(g.fittingCut(s.ctx, s.budget, seedWork))
	g.variedCuts(s.ctx, s.budget, seedWork, a.search.rng, add)
	if extras := g.ChainExtras(s.ctx, s.budget); extras != nil {
		_ = a.search.Add(extras, "chain")
	}
	s.settle(a)
}

// turn lets the arms work by turns, the best of them more than the others, and adds the orders that
// their schedules suggest. It reports whether anything was done.
func (s *problemSolver) turn(slice int64) bool {
	did := false
	for i, a := range slices.Clone(s.arms) {
		if a.idle || s.ended() {
			continue
		}
		left := slice >> (2 * i)
		if s.opts.Nodes > 0 {
			left = min(left, s.opts.Nodes-s.work)
		}
		before := a.search.d.work
		_, _ = a.search.Fit(s.ctx, s.budget, left) // its answers are read below
		spent := a.search.d.work - before
		s.work += spent
		if a.idle = spent == 0 && left > 0; !a.idle {
			did = true
		}
		s.settle(a)
		if i == 0 && !s.ended() && s.opts.Solver != "greedy" {
			s.annealArm(a, left)
		}
	}
	if s.opts.Solver == "greedy" {
		return false
	}
	s.rank()
	if s.reorders() && !s.ended() {
		did = s.suggest() || did
	}
	return did
}

// rank puts the arms with the cheapest schedules first, and those without one behind them, by their
// peaks; and lets go of the last ones.
func (s *problemSolver) rank() {
	slices.SortStableFunc(s.arms, func(a, b *arm) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.peak, b.peak))
	})
	s.arms = s.arms[:min(len(s.arms), mostArms)]
}

// suggest adds the orders that the schedule of the best arm suggests, and reports whether there were
// any.
func (s *problemSolver) suggest() bool {
	a := s.arms[0]
	best := a.search.within(s.budget)
	if best == nil {
		best = &a.search.known[0]
	}
	if best.Cost == a.told {
		return false
	}
	a.told = best.Cost
	seq := s.pruned(a.folded.sequence(best.Extras))
	before := len(s.arms)
	nexts := [][]int32{s.linked(seq).sink(), s.linked(seq).hoist(), seq}
	if a.cost == unknown {
		nexts = append(nexts, s.linked(seq).postponed())
	}
	for _, next := range nexts {
		order := s.firsts(next)
		b := s.add(order)
		_ = b.search.Add(b.folded.extras(next, order), best.Method)
		s.settle(b)
	}
	return len(s.arms) > before
}
