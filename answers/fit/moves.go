package fit

import (
	"context"
	"errors"

	"memopt"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/symbolic"
)

// kinds are those that were asked for: without moves, all but Moves.
func (o *Options) kinds() Kind {
	if o.Moves.Asked() {
		return numKinds
	}
	return Moves
}

// overhead is how much longer the step takes, as a share; ok is false where no plan was found.
func (s *Size) overhead() (share float64, ok bool) {
	switch {
	case s.Moving != nil:
		return s.Moving.Overhead, true
	case s.Plan != nil:
		return s.Plan.Overhead, true
	}
	return 0, false
}

// host is the bytes that values take on the host.
func (s *Size) host() int64 {
	if s.Moving == nil {
		return 0
	}
	return s.Moving.HostArena
}

// withMoves finds the largest size with a plan whose values may move to the host, from the largest one without moves
// on: by strides that double, then by halves. There are no formulas of such plans.
func (f *finder) withMoves(best *Size) (*Size, error) {
	b := &bracket{size: *best, fits: f.over.Lo - 1, above: f.over.Hi + 1}
	if b.size.Searches, b.size.Stopped = 0, false; best.Value > 0 {
		b.fits = best.Value
	}
	for stride := max(best.Value/8, 1); b.fits+1 < b.above; {
		if b.size.Stopped = f.late(); b.size.Stopped {
			break
		}
		n := b.fits + (b.above-b.fits)/2
		if b.above > f.over.Hi {
			n = min(b.fits+stride, f.over.Hi)
			stride *= 2
		}
		b.size.Searches++
		p, o, err := f.movingAt(n)
		if err != nil {
			return nil, err
		}
		if b.note(n, o); o.fits {
			b.size.Moving = p
		}
	}
	s := &b.size
	if s.Above, s.AbovePrice = b.total, b.price; s.Moving == nil {
		return s, nil
	}
	s.Value, s.Peak, s.Proved = b.fits, symbolic.Expr{}, false
	s.Unlimited = b.fits == f.over.Hi && !f.capped
	return s, nil
}

// movingAt looks for a plan with moves at a size.
func (f *finder) movingAt(n int64) (*memopt.Moving, *outcome, error) {
	if err := f.ctx.Err(); err != nil && !f.late() {
		return nil, nil, err
	}
	ctx, done := timelimit.Share(f.ctx, searchPart)
	defer done()
	b := memopt.Budget{Total: f.opts.Limit, Effort: f.opts.effort(), Seed: f.opts.Seed}
	p, err := at(f.model, symbolic.Env{f.symbol: n}).PlanMoves(ctx, b, f.opts.Plan, f.opts.Moves)
	var infeasible *planner.InfeasibleError
	switch {
	case errors.As(err, &infeasible):
		o := &outcome{}
		if infeasible.Searched() && infeasible.Persistent > 0 {
			o.total = infeasible.Persistent + infeasible.LowestArena
		}
		return nil, o, nil
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &outcome{}, nil
	case err != nil:
		return nil, nil, err
	case p.Overhead > f.opts.MaxOverhead:
		return nil, &outcome{price: p.Overhead}, nil
	}
	return p, &outcome{plan: p.Plan, total: p.Arena + p.Persistent, fits: true}, nil
}
