package fit

import (
	"errors"
	"slices"

	"memopt"
	"memopt/planner"
	"memopt/planner/envelope"
	"memopt/symbolic"
)

// formulaOf returns the formula of a plan over the range; nil if there is no useful one.
func (f *finder) formulaOf(k Kind, p *memopt.Plan) (*planner.Formula, error) {
	if k == Plain || !p.Rewrites() || f.opts.Plan.Device != nil {
		return f.base, nil
	}
	if f.late() {
		return nil, nil
	}
	formula, err := p.Formula(f.ctx, f.box())
	if errors.Is(err, envelope.ErrPieces) || f.late() {
		return nil, nil
	}
	return formula, err
}

// box is the range as a box.
func (f *finder) box() envelope.Box {
	return envelope.Box{{Symbol: f.symbol, Lo: f.over.Lo, Hi: f.over.Hi}}
}

// reach is the largest size whose bytes by a formula are within the limit; one below the range if
// there is no such size.
func (f *finder) reach(formula *planner.Formula) int64 {
	for _, p := range slices.Backward(formula.Pieces) {
		if n, ok := f.reachIn(&p, formula.Persistent); ok {
			return n
		}
	}
	return f.over.Lo - 1
}

// maxScan bounds how many sizes of a piece are tried one by one.
const maxScan = 4096

// reachIn is reach for a piece. Where bytes do not rise with the size, sizes are tried one by one, as
// far as that goes.
func (f *finder) reachIn(p *envelope.Piece, persistent symbolic.Expr) (int64, bool) {
	axis := p.Box[0]
	lo, hi := axis.Lo-1, axis.Hi+1
	if !f.rises(p, persistent) {
		for n := axis.Hi; n >= max(axis.Lo, axis.Hi-maxScan); n-- {
			if f.within(p, persistent, n) {
				return n, true
			}
		}
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; f.within(p, persistent, mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, lo >= axis.Lo
}

// within reports whether a piece's bytes at a size are within the limit.
func (f *finder) within(p *envelope.Piece, persistent symbolic.Expr, n int64) bool {
	env := symbolic.Env{f.symbol: n}
	live, _, err := p.Peak(env)
	stay, err2 := persistent.Eval(env)
	return err == nil && err2 == nil && stay <= f.opts.Limit && live <= f.opts.Limit-stay
}

// rises reports whether it is proved that bytes do not fall as the size grows within a piece.
func (f *finder) rises(p *envelope.Piece, persistent symbolic.Expr) bool {
	return envelope.Rises(persistent, p.Box, f.symbol) &&
		!slices.ContainsFunc(p.Peaks, func(l envelope.Load) bool { return !envelope.Rises(l.Bytes, p.Box, f.symbol) })
}

// proves reports whether a formula shows that live bytes and persistent ones are within the limit at
// all sizes up to n.
func (f *finder) proves(formula *planner.Formula, n int64) bool {
	for i := range formula.Pieces {
		p := &formula.Pieces[i]
		if p.Box[0].Lo > n {
			break
		}
		if !f.rises(p, formula.Persistent) || !f.within(p, formula.Persistent, min(n, p.Box[0].Hi)) {
			return false
		}
	}
	return true
}

// finish makes the answer of a bracket.
func (f *finder) finish(k Kind, b *bracket) (*Size, error) {
	s := &b.size
	s.Least = f.over.Lo
	if b.fits >= f.over.Lo {
		s.Value, s.Above, s.AbovePrice = b.fits, b.total, b.price
		s.Unlimited = b.fits == f.over.Hi && !f.capped
	}
	if f.base != nil {
		s.Persistent = f.base.Persistent
	}
	if s.Plan == nil {
		return s, nil
	}
	formula, err := f.formulaOf(k, s.Plan)
	if err != nil || formula == nil {
		return s, err
	}
	s.Proved = s.Value > 0 && f.proves(formula, s.Value)
	_, at, err := formula.Peak(symbolic.Env{f.symbol: max(s.Value, s.Least)})
	s.Peak = at.Bytes
	return s, err
}
