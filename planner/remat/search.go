package remat

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"memopt/internal/timelimit"
)

// Search finds cheap lists of extra runs for one graph at one budget after the other. Everything it
// finds is kept and serves later budgets. It is not safe for concurrent use.
type Search struct {
	// Progress, if not nil, is called with each answer that is the cheapest within the budget at
	// hand so far.
	Progress func(Answer)

	g      *Graph
	d      *dropper
	rng    *rand.Rand
	need   int64
	base   int64    // cost of all first runs
	least  int64    // cost of the extra runs that are always there
	known  []Answer // the Pareto front, by rising peak and falling cost
	lowest int64    // peak of anything tried
	goal   int64    // budget of the call at hand
	again  bool     // the call before had the same budget and a list within it
	round  int      // steps of the next round of improve, 0 before the first
	took   int64    // work of the last construction that came within its budget
	began  int64    // work of the ledger before the call at hand
	limit  int64    // of the ledger's work, for the call at hand
	ctx    context.Context
}

// Answer is a list of extra runs with its cost and its peak.
type Answer struct {
	Extras     []Extra // in order of execution
	Cost, Peak int64   // Cost is that of the extra runs only
	Method     string  // that found it: "order", "greedy", "lns" or the argument of Add
}

// NewSearch prepares a search on a graph, which must not change any more. The seed, of any value,
// sets the random choices.
func NewSearch(g *Graph, seed int64) *Search {
	rng := rand.New(rand.NewPCG(uint64(seed), 0x853c49e6748fea9b))
	s := &Search{g: g, d: newDropper(newLedger(g), rng), rng: rng, need: g.Need(), lowest: math.MaxInt64}
	for t := range g.Tasks {
		s.base += g.Tasks[t].Cost
	}
	s.least = s.d.cost
	s.keep("order")
	return s
}

// Need is the largest need of a single run: its operands, outputs and workspace alone. No schedule
// has a lower peak. A run with inputs that it may write over is taken to write over one.
func (g *Graph) Need() int64 {
	most := int64(0)
	for t := range g.Tasks {
		task := &g.Tasks[t]
		need := task.Workspace
		for _, u := range task.Uses {
			need += g.Values[u].Size
		}
		for slot, v := range task.Makes {
			if slot > 0 || len(task.InPlace) == 0 {
				need += g.Values[v].Size
			}
		}
		most = max(most, need)
	}
	return most
}

// Fit returns the cheapest known list of extra runs with a peak within the budget after so much
// more counted work; 0 returns the best so far, or else the first found. The answer is the same for
// the same graph, seed and sequence of calls; a context that ends only stops the search early, and
// the best known is returned all the same. Without one, the error is an *InfeasibleError.
func (s *Search) Fit(ctx context.Context, budget, work int64) (*Answer, error) {
	if budget < s.need {
		return nil, s.infeasible(budget)
	}
	best := s.within(budget)
	if best == nil || best.Cost > s.least && work > 0 {
		if s.begin(ctx, budget, work); best == nil || !s.again {
			if !s.construct(work) {
				s.descend(budget)
			}
		}
		if best = s.within(budget); best != nil && work > 0 {
			s.improve()
			best = s.within(budget)
		}
		s.end()
	}
	return s.answer(best, budget)
}

// Construct is Fit for the first list found, by a few constructions alone.
func (s *Search) Construct(ctx context.Context, budget int64) (*Answer, error) {
	if budget < s.need {
		return nil, s.infeasible(budget)
	}
	if s.within(budget) == nil {
		s.begin(ctx, budget, 0)
		s.construct(0)
		s.end()
	}
	return s.answer(s.within(budget), budget)
}

// answer is a copy of the best known within a budget, or the error without one.
func (s *Search) answer(best *Answer, budget int64) (*Answer, error) {
	if best == nil {
		return nil, s.infeasible(budget)
	}
	answer := *best
	answer.Extras = slices.Clone(answer.Extras)
	return &answer, nil
}

// Add adds a list of extra runs found by other means to the known ones.
func (s *Search) Add(extras []Extra, method string) error {
	for _, x := range extras {
		if err := s.g.checkExtra(x); err != nil {
			return err
		}
	}
	s.d.load(SortExtras(slices.Clone(extras)))
	s.keep(method)
	return nil
}

func (s *Search) infeasible(budget int64) error {
	return &InfeasibleError{Budget: budget, LowestPeak: s.lowest, PeakLowerBound: s.need}
}

// within is the cheapest known answer within the budget, or nil.
func (s *Search) within(budget int64) *Answer {
	i, _ := slices.BinarySearchFunc(s.known, budget, func(a Answer, b int64) int {
		if a.Peak <= b {
			return -1
		}
		return 1
	})
	if i == 0 {
		return nil
	}
	return &s.known[i-1]
}

// mostKnown bounds the number of kept answers.
const mostKnown = 256

// keep adds the ledger's list to the known ones, unless one of them is as good.
func (s *Search) keep(method string) {
	l := s.d.ledger
	peak := l.peak()
	s.lowest = min(s.lowest, peak)
	if a := s.within(peak); a != nil && a.Cost <= l.cost {
		return
	}
	extras := SortExtras(slices.Clone(l.extras))
	answer := Answer{Extras: extras, Cost: l.cost, Peak: peak, Method: method}
	s.known = slices.DeleteFunc(s.known, func(a Answer) bool { return a.Peak >= peak && a.Cost >= l.cost })
	i, _ := slices.BinarySearchFunc(s.known, peak, func(a Answer, p int64) int {
		if a.Peak <= p {
			return -1
		}
		return 1
	})
	s.known = slices.Insert(s.known, i, answer)
	if len(s.known) > mostKnown { // neighbours that differ least in peak are thinned out, ends and newcomer aside
		s.thin(i)
	}
	if a := s.within(s.goal); s.Progress != nil && s.ctx != nil && a != nil && a.Cost == answer.Cost {
		s.Progress(answer)
	}
}

// thin drops the known answer whose neighbours are closest in peak, but not the one at i.
func (s *Search) thin(i int) {
	drop, least := -1, int64(math.MaxInt64)
	for k := 1; k < len(s.known)-1; k++ {
		if gap := s.known[k+1].Peak - s.known[k-1].Peak; k != i && gap < least {
			drop, least = k, gap
		}
	}
	s.known = slices.Delete(s.known, drop, drop+1)
}

// Lowest looks for the lowest peak that it can reach with so much more counted work (0: a share
// that grows with the graph), and returns the cheapest known answer with that peak. A context that
// ends stops it early: one that has ended asks for the answers so far.
func (s *Search) Lowest(ctx context.Context, work int64) (*Answer, error) {
	s.begin(ctx, s.need, work)
	s.descend(s.need)
	s.end()
	return s.answer(&s.known[0], s.need)
}

// begin sets up a call.
func (s *Search) begin(ctx context.Context, budget, work int64) {
	if s.again = s.ctx != nil && s.goal == budget && s.round > 0; !s.again {
		s.round = 0
	}
	s.ctx, s.goal, s.d.budget = ctx, budget, budget
	if work == 0 {
		work = firstWork + firstPart*int64(len(s.g.Tasks))
	}
	s.began = s.d.work
	s.limit = s.d.work + min(work, infinite, timelimit.Left(ctx))
}

// end tells the context of the call about its work.
func (s *Search) end() { timelimit.Spend(s.ctx, s.d.work-s.began) }

// stop reports whether the call at hand must end.
func (s *Search) stop() bool { return s.d.work >= s.limit || s.ctx.Err() != nil }

// infinite stands for work without limit.
const infinite = math.MaxInt64 / 2
