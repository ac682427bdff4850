package offload

import (
	"context"
	"errors"
	"math"

	"memopt/planner/remat"
)

// Options are the options of Solve.
type Options struct {
	Link       Link
	HostBudget int64 // bytes that copies on the host may take at once; 0: no value moves
	Seed       int64 // of the random choices of recomputation
	Work       int64 // counted work that ends the search; 0 leaves that to the context
	First      bool  // the first schedule that is found ends the search

	// Progress, if not nil, is called with each better schedule: its overhead.
	Progress func(overhead float64)
}

// Solution is a schedule with its bounds.
type Solution struct {
	Steps []Step
	Outcome
	Base           float64            // the cost of computing every node once
	LowerBound     float64            // no schedule ends sooner
	AnyOrder       bool               // LowerBound holds in any order of first computes, else in the given one
	PeakLowerBound int64              // no schedule has a lower peak
	Optimal        bool               // LowerBound is reached
	InOrder        bool               // first computes, views aside, keep the given order
	Moved          int64              // bytes that are copied to the host
	Certificate    *remat.Certificate // why LowerBound, or a part of it, holds; nil: no cut proves more than Base
}

// Overhead is the time beyond that of computing every node once, as a share of it.
func (s *Solution) Overhead() float64 { return over(s.Makespan, s.Base) }

func over(makespan, base float64) float64 {
	if base == 0 {
		return 0
	}
	return (makespan - base) / base
}

// Solve looks for the schedule within the budget of the problem that ends first, where values are kept,
// recomputed or moved. It returns when the answer is proved to be optimal, the work is used up or the
// context ends. Without a schedule it reports a *remat.InfeasibleError.
func Solve(ctx context.Context, p *remat.Problem, o Options) (*Solution, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Budget <= 0 {
		return nil, errors.New("offload: the budget is 0 bytes: it must be positive")
	}
	if err := o.Link.Validate(); err != nil {
		return nil, err
	}
	link, err := o.Link.clock(p.Unit)
	if err != nil {
		return nil, err
	}
	s := &search{p: p, opts: o, link: link, ctx: ctx, base: p.BaseCost(), makespan: math.Inf(1), share: 1}
	s.sweep = remat.NewSweep(ctx, p, o.Seed)
	s.bound = remat.Moved{Makespan: s.base, AnyOrder: true, Peak: s.sweep.Need()}
	if s.bound.Peak <= p.Budget {
		if err := s.run(); err != nil {
			return nil, err
		}
	}
	return s.solution()
}

// search is the state of Solve.
type search struct {
	p     *remat.Problem
	opts  Options
	link  clock
	ctx   context.Context
	base  float64
	bound remat.Moved
	sweep *remat.Sweep
	work  int64

	makespan float64 // of the best schedule
	program  *program
	moves    []Move
	share    float64 // of the link, of the best schedule
	lowest   int64   // peak of any schedule found
}

const (
	tries     = 12      // shares of the link in each round
	firstWork = 200_000 // counted work of recomputation for each of them
	mostVain  = 3       // rounds without a better schedule
	mostShare = 100
	fewNodes  = 200 // shares far from the best so far are looked at too
)

// run looks at shares of the link that recomputation may count on: with a lower one more is recomputed,
// with a higher one computations wait for copies.
func (s *search) run() error {
	if err := s.first(); err != nil || s.ended() {
		return err
	}
	s.bound = s.p.MovedBound(s.ctx, s.link.rate)
	if s.bound.Peak > s.p.Budget || s.ended() {
		return nil
	}
	s.sweep.AddOrders(s.ctx)
	vain := 0
	for work := int64(firstWork); vain < mostVain; work *= 4 {
		before := s.makespan
		if err := s.round(work); err != nil || s.ended() {
			return err
		}
		if vain++; s.makespan < before {
			vain = 0
		}
	}
	return nil
}

// first looks for a schedule in the given order, before anything that takes longer.
func (s *search) first() error {
	shares := []float64{1, 0.9, 0}
	if s.link.rate == 0 || s.opts.HostBudget == 0 {
		shares = []float64{0}
	}
	for _, share := range shares {
		if _, err := s.try(share, 0); err != nil || s.program != nil {
			return err
		}
	}
	return nil
}

// round looks at some shares, from that of the best schedule so far on.
func (s *search) round(work int64) error {
	if s.link.rate == 0 || s.opts.HostBudget == 0 {
		_, err := s.try(0, work)
		return err
	}
	share := s.share
	if share == 0 {
		share = 1
	}
	if _, err := s.try(0, work); err != nil || s.ended() { // no value needs to move
		return err
	}
	at, err := s.try(share, work)
	for step, n := 0.05, 0; err == nil && n < tries && !s.ended(); n++ {
		improved := false
		for _, next := range []float64{share + step, share - step} {
			var end float64
			if end, err = s.try(next, work); err != nil || s.ended() {
				break
			}
			if end < at {
				share, at, improved = next, end, true
				break
			}
		}
		if !improved {
			step /= 3
		}
	}
	// Where the link is so slow that runs must wait for it, less recomputation may be better still.
	far := func() bool { return s.program == nil || len(s.p.Nodes) <= fewNodes }
	for next := 1.5; err == nil && next < mostShare && !s.ended() && far(); next *= 1.5 {
		_, err = s.try(next, work)
	}
	return err
}

// ended reports whether the search is over.
func (s *search) ended() bool {
	return s.ctx.Err() != nil || s.makespan <= s.bound.Makespan ||
		s.program != nil && (s.opts.First || s.opts.Work > 0 && s.work >= s.opts.Work)
}

// try looks for a schedule whose recomputation counts on a share of the link, and tells when it ends.
func (s *search) try(share float64, work int64) (float64, error) {
	steps, _, err := s.sweep.Within(s.ctx, s.p.Budget, max(0, share)*s.link.rate, s.opts.HostBudget, work)
	s.work = s.sweep.Work
	if err != nil || steps == nil {
		return math.Inf(1), err
	}
	prog, err := follow(s.p, steps)
	if err != nil {
		return 0, err
	}
	moves, end, ok := prog.line.best(s.link, s.p.Budget, s.opts.HostBudget)
	if !ok {
		return math.Inf(1), nil
	}
	if end < s.makespan {
		s.makespan, s.program, s.moves, s.share = end, prog, moves, share
		if s.opts.Progress != nil {
			s.opts.Progress(over(end, s.base))
		}
	}
	return end, nil
}

func (s *search) solution() (*Solution, error) {
	if s.program == nil {
		return nil, &remat.InfeasibleError{Budget: s.p.Budget, LowestPeak: s.lowest, PeakLowerBound: s.bound.Peak}
	}
	r := &Solution{Steps: s.program.with(s.moves), Base: s.base, LowerBound: s.bound.Makespan,
		AnyOrder: s.bound.AnyOrder, PeakLowerBound: s.bound.Peak, Certificate: s.bound.Certificate}
	out, err := Replay(s.p, s.opts.Link, r.Steps)
	if err != nil {
		return nil, err
	}
	r.Outcome = *out
	r.LowerBound = min(r.LowerBound, r.Makespan)
	r.Optimal = r.LowerBound == r.Makespan
	r.InOrder = inOrder(s.p, r.Steps)
	for _, m := range s.moves {
		if !m.Clean {
			r.Moved += s.program.line.Gaps[m.Gap].Size
		}
	}
	return r, nil
}

// inOrder tells whether the first computes of nodes that are no views keep their order.
func inOrder(p *remat.Problem, steps []Step) bool {
	last := int32(-1)
	seen := make([]bool, len(p.Nodes))
	for _, s := range steps {
		if s.Kind != Compute || seen[s.Of] || p.Nodes[s.Of].View {
			continue
		}
		if s.Of < last {
			return false
		}
		seen[s.Of], last = true, s.Of
	}
	return true
}
