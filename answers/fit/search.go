package fit

import (
	"errors"

	"memopt"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/symbolic"
)

// maxPool is how many plans are kept whose placements may do at other sizes.
const maxPool = 4

// reusable is a plan and the largest size that its placements keep within the limit of live bytes.
type reusable struct {
	plan  *memopt.Plan
	reach int64
}

// seeker finds the largest size with a plan that fits within the overhead: first between bounds, by plans that
// are the first to fit, then from there on by plans that are searched with all effort.
type seeker struct {
	*finder
	bracket
	plain, level1 *Size
	chunk         chunk.Mode // the mode of chunking
	low, high     float64    // the overheads at fits and above; high is 0 without a plan
	searches      int
}

// best finds the largest size with a plan, given those without one and with level 1.
func (f *finder) best(plain, level1 *Size) (*Size, error) {
	s := &seeker{finder: f, bracket: bracket{fits: f.over.Lo - 1, above: f.over.Hi + 1}, plain: plain, level1: level1,
		chunk: chunk.Off}
	if err := s.bound(); err != nil {
		return nil, err
	}
	if plain.Value > 0 {
		s.note(plain.Value, &outcome{plan: plain.Plan, total: plain.Total, fits: true})
	}
	if level1.Value > s.fits && level1.Plan.Overhead <= f.opts.MaxOverhead {
		s.note(level1.Value, &outcome{plan: level1.Plan, total: level1.Total, fits: true})
	}
	if err := s.narrow(); err != nil {
		return nil, err
	}
	if s.opts.Effort > 0 {
		if err := s.push(s.opts.effort()); err != nil {
			return nil, err
		}
	}
	// Each search among chunked regions takes several times as long: they are for sizes that recomputation
	// alone does not reach, by the first plan that fits.
	if mode := s.opts.Plan.Chunk; mode != "" && mode != chunk.Off {
		s.chunk = mode
		if err := s.push(0); err != nil {
			return nil, err
		}
	}
	s.size.Searches = s.searches
	return f.finish(Best, &s.bracket)
}

// note narrows the bracket.
func (s *seeker) note(n int64, o *outcome) {
	if s.bracket.note(n, o); o.fits {
		s.low = o.plan.Overhead
	} else {
		s.high = o.price
	}
}

// narrow closes the bracket with the first plans that fit.
func (s *seeker) narrow() error {
	for round := 0; s.fits+1 < s.above && !s.ended(); round++ {
		if err := s.step(s.guess(round), 0); err != nil {
			return err
		}
	}
	return nil
}

// ended reports whether the time is up, and notes that it has ended the search.
func (s *seeker) ended() bool {
	s.size.Stopped = s.size.Stopped || s.late()
	return s.size.Stopped
}

// guess is a size within the bracket whose overhead may be just allowed: overheads tend to grow with the excess
// over the limit. Every third guess halves the bracket.
func (s *seeker) guess(round int) int64 {
	width := s.above - s.fits
	share := 0.5
	if s.high > s.low && round%3 != 2 {
		share = (s.opts.MaxOverhead - s.low) / (s.high - s.low)
	}
	return min(max(s.fits+int64(share*float64(width)), s.fits+1), s.above-1)
}

// push tries larger sizes than the plans so far reach, as long as plans that are searched with this effort fit.
func (s *seeker) push(effort float64) error {
	if s.fits >= s.over.Hi || s.ended() {
		return nil
	}
	quick := s.bracket
	s.above, s.total, s.price, s.high = s.end, 0, 0, 0
	for stride := int64(1); s.fits+1 < s.above && s.above == s.end && !s.ended(); stride *= 2 {
		if err := s.step(min(s.fits+stride, s.above-1), effort); err != nil {
			return err
		}
	}
	for round := 0; s.fits+1 < s.above && !s.ended(); round++ {
		if err := s.step(s.guess(round), effort); err != nil {
			return err
		}
	}
	if s.above == quick.above && s.total == 0 && s.price == 0 {
		s.total, s.price = quick.total, quick.price
	}
	return nil
}

// step tries a size, and if a plan fits there how far its placements reach.
func (s *seeker) step(n int64, effort float64) error {
	o, err := s.try(n, effort)
	if err != nil {
		return err
	}
	if s.note(n, o); !o.fits {
		return nil
	}
	for i := range s.pool {
		r := &s.pool[i]
		if r.plan != o.plan || r.reach <= n || r.reach >= s.above {
			continue
		}
		further, err := s.judge(r.reach, placementsOf(r.plan))
		if err != nil {
			return err
		}
		if further.fits && further.plan.Overhead <= s.opts.MaxOverhead {
			s.note(r.reach, further)
		}
	}
	return nil
}

// try looks for a plan at a size: placements that did at another one, else a search.
func (s *seeker) try(n int64, effort float64) (*outcome, error) {
	best := &outcome{}
	for i := len(s.pool) - 1; i >= 0; i-- {
		if s.pool[i].reach < n {
			continue
		}
		o, err := s.judge(n, placementsOf(s.pool[i].plan))
		if err != nil {
			return nil, err
		}
		if o.fits && o.plan.Overhead <= s.opts.MaxOverhead {
			return o, nil
		}
	}
	s.searches++
	p, err := s.searchAt(n, memopt.Budget{Total: s.opts.Limit, Effort: effort, Seed: s.opts.Seed})
	var infeasible *planner.InfeasibleError
	switch {
	case errors.As(err, &infeasible):
		if infeasible.Searched() {
			best.total = infeasible.Persistent + infeasible.LowestArena
		}
		return best, nil
	case err != nil:
		return nil, err
	}
	if err := s.keep(p, n); err != nil {
		return nil, err
	}
	if p.Overhead > s.opts.MaxOverhead {
		best.price = p.Overhead
		return best, nil
	}
	return &outcome{plan: p, total: total(p), fits: true}, nil
}

// searchPart is the part of the time that is left which one search may take.
const searchPart = 0.5

// searchAt looks for a plan at a size.
func (s *seeker) searchAt(n int64, b memopt.Budget) (*memopt.Plan, error) {
	ctx, done := timelimit.Share(s.ctx, searchPart)
	defer done()
	o := s.opts.Plan
	o.Chunk = s.chunk
	return at(s.model, symbolic.Env{s.symbol: n}).Plan(ctx, b, o)
}

// keep adds a plan to the pool, unless parts of its graph are of one size alone.
func (s *seeker) keep(p *memopt.Plan, n int64) error {
	if p.Whole != nil {
		return nil
	}
	formula, err := s.formulaOf(Best, p)
	if err != nil {
		return err
	}
	reach := n
	if formula != nil {
		reach = s.reach(formula)
	}
	if s.pool = append(s.pool, reusable{p, reach}); len(s.pool) > maxPool {
		s.pool = s.pool[1:]
	}
	return nil
}

// bound lowers the end of the bracket to where the least that any plan takes is too much.
func (s *seeker) bound() error {
	defer func() { s.end = s.above }()
	if s.base == nil || s.late() {
		return nil
	}
	least := func(n int64) (int64, error) {
		env := symbolic.Env{s.symbol: n}
		t, err := s.base.Simulated(env)
		if err != nil {
			return 0, err
		}
		persistent, err := s.base.Persistent.Eval(env)
		return persistent + t.LowerBound, err
	}
	lo, hi := s.over.Lo-1, s.above
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		bytes, err := least(mid)
		if err != nil {
			return err
		}
		if bytes > s.opts.Limit {
			hi, s.total = mid, bytes
		} else {
			lo = mid
		}
	}
	if s.above = hi; hi <= s.over.Lo {
		s.size.Total = s.total
	}
	return nil
}
