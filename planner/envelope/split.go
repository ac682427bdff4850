package envelope

import (
	"slices"

	"memopt/symbolic"
)

// question is something about sizes that has the same answer in all of a box, or has not.
type question struct {
	// of is the expression whose sign is the answer.
	of symbolic.Expr
	// equal means that the sign as a whole matters, 0, -1 or 1, and not only whether it is negative.
	equal bool
}

// settled reports whether it is proved that the answer is the same in all of a region.
func (q question) settled(r *region) bool {
	if _, constant := q.of.Const(); constant {
		return true
	}
	one := symbolic.Const(1)
	if q.equal {
		return r.notNegative(q.of.Sub(one)) || r.notNegative(q.of.Neg().Sub(one))
	}
	return r.notNegative(q.of) || r.notNegative(q.of.Neg().Sub(one))
}

// answer is the answer at a binding.
func (q question) answer(env symbolic.Env) int {
	n, err := q.of.Eval(env)
	switch {
	case err != nil:
		return 2
	case n < 0:
		return -1
	case n > 0 && q.equal:
		return 1
	}
	return 0
}

// divide cuts a box, which is no point, so that the answer to a question is the same in one of the
// parts or in both, if possible: at a change along an edge of the box, else in the middle.
func (q question) divide(b Box) (below, above Box) {
	axis, at := -1, int64(0)
	for i, a := range b {
		if a.Lo == a.Hi || !slices.Contains(q.of.Symbols(), a.Symbol) {
			continue
		}
		for _, env := range []symbolic.Env{b.Low(), b.High()} {
			if change, ok := q.change(a, env); ok && (axis < 0 || a.nearer(change, b[axis], at)) {
				axis, at = i, change
			}
		}
	}
	if axis < 0 {
		axis = q.widest(b)
		at = b[axis].Lo + (b[axis].Hi-b[axis].Lo)/2
	}
	return b.cut(axis, at)
}

// nearer reports whether a cut is nearer to an end of its axis, in shares of its length, than one of
// another axis: it tends to leave more of the box whole.
func (a Axis) nearer(at int64, other Axis, than int64) bool {
	return a.share(at) < other.share(than)
}

func (a Axis) share(at int64) float64 {
	return float64(min(at-a.Lo+1, a.Hi-at)) / float64(a.Hi-a.Lo+1)
}

// spread is the largest number of values in a box that a symbol of the question takes.
func (q question) spread(b Box) int64 {
	a := b[q.widest(b)]
	return a.Hi - a.Lo + 1
}

// widest is the axis with the most values among those that the question depends on, else among all.
func (q question) widest(b Box) int {
	best, symbols := -1, q.of.Symbols()
	for i, a := range b {
		if slices.Contains(symbols, a.Symbol) && a.Lo != a.Hi && (best < 0 || a.Hi-a.Lo > b[best].Hi-b[best].Lo) {
			best = i
		}
	}
	if best >= 0 {
		return best
	}
	best = 0
	for i, a := range b {
		if a.Hi-a.Lo > b[best].Hi-b[best].Lo {
			best = i
		}
	}
	return best
}

// change finds the last value along an axis, from a corner, with the answer at the axis' lowest
// value; ok is false if the answer at the highest one is the same.
func (q question) change(a Axis, env symbolic.Env) (at int64, ok bool) {
	answer := func(n int64) int {
		env[a.Symbol] = n
		return q.answer(env)
	}
	first := answer(a.Lo)
	if answer(a.Hi) == first {
		return 0, false
	}
	lo, hi := a.Lo, a.Hi
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; answer(mid) == first {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, true
}
