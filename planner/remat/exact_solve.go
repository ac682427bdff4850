package remat

import (
	"fmt"
	"math"
)

// exactPace is how much of its own counted work the exact search does for each unit of work of a
// solver, so that both take about the same time.
const exactPace = 8

// exactSlice is the least work of one turn of the search, in units of a solver.
const exactSlice = 1 << 18

// Up to exactAtOnce nodes, the exact search comes before all others.
const exactAtOnce = 16

// prover runs an exact search beside other ones.
type prover struct {
	*exactSearch
	spent int64 // in units of a solver
	over  bool
}

// tooLarge is the error of a solver that takes small instances only.
func tooLarge(solver string, nodes, most int) error {
	return fmt.Errorf("remat: the solver %s takes at most %d nodes, the instance has %d: use auto or lns",
		solver, most, nodes)
}

// exactShare and exactLittle are the parts of all work that go to the exact search, one in so many.
// The second is for instances of more than exactLikely nodes as long as a proof is far off.
const (
	exactShare  = 3
	exactLittle = 16
	exactLikely = 128
)

// prove goes on with the exact search of a small instance until it has had its share of the work.
func (s *solver) prove() {
	share := int64(exactShare)
	if s.n > exactLikely && (s.best == nil || s.cost-s.bound > (s.cost-s.base)/8) {
		share = exactLittle
	}
	due := s.work/share - s.prover.spent
	if s.n > exactNodes || s.prover.over || due < exactSlice {
		return
	}
	s.runExact(due)
}

// runExact goes on with the exact search for so much work. Its result is the cheapest schedule in
// the given order.
func (s *solver) runExact(work int64) {
	p := &s.prover
	if p.over || s.ended() {
		return
	}
	if p.exactSearch == nil {
		p.exactSearch = newExactSearch(s.ctx, s.single, s.bound-s.base)
	}
	p.below = math.MaxInt64
	if s.best != nil {
		p.below = s.cost - s.base
	}
	limit := p.spent + work
	account := func() {
		now := p.exactSearch.work / exactPace
		s.work += now - p.spent
		p.spent = now
	}
	found, bound, over := p.run(func() bool {
		account()
		return p.spent >= limit || s.ended()
	})
	account()
	if p.over = over; over {
		p.exactSearch = nil
	}
	stage := s.stage
	s.stage = "exact"
	s.offer(found)
	s.stage = stage
	if bound < math.MaxInt64-s.base {
		s.bound = max(s.bound, s.base+bound)
	} else {
		s.bound = math.MaxInt64 // there is no schedule
	}
}
