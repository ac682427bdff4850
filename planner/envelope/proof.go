package envelope

import (
	"math"
	"slices"

	"memopt/symbolic"
)

// maxMirrored bounds the symbols that are tried in both directions.
const maxMirrored = 3

// notNegative reports whether it is proved that an expression is at least 0 in all of a region.
//
// symbolic.AtMost measures symbols from where their ranges begin. An expression that is smallest at
// the other end of a range, as n*(9 - n) up to 8 is, needs the symbol to run backwards. Once the work is done, only
// intervals are looked at.
func (r *region) notNegative(e symbolic.Expr) bool {
	if n, constant := e.Const(); constant {
		return n >= 0
	}
	if !e.IsKnown() {
		return false
	}
	r.work.spend(e.Size())
	for _, env := range [...]symbolic.Env{r.low, r.high} {
		if n, err := e.Eval(env); err != nil || n < 0 {
			return false
		}
	}
	if lo, _, known, _ := e.Bounds(r.bounds); known && lo >= 0 {
		return true
	}
	wide := r.wide[:min(len(r.wide), maxMirrored)]
	for mask := 0; mask < 1<<len(wide) && !r.work.done(); mask++ {
		mirrored := map[string]symbolic.Expr{}
		for i, a := range wide {
			if mask>>i&1 == 1 {
				mirrored[a.Symbol] = symbolic.Const(a.Lo + a.Hi).Sub(symbolic.Sym(a.Symbol))
			}
		}
		proved, work := symbolic.ProveAtMost(symbolic.Const(0), e.Subst(mirrored), r.bounds)
		r.work.spend(max(proofWork*e.Size(), work))
		if proved {
			return true
		}
	}
	return false
}

// Holds returns the proved truth of x ≤ y at all bindings of the box, where other symbols are bound.
func (b Box) Holds(others symbolic.Env) func(x, y symbolic.Expr) bool {
	r := newRegion(b, NewWork(math.MaxInt64))
	return func(x, y symbolic.Expr) bool { return r.notNegative(y.Sub(x).Bind(others).Bind(r.fixed)) }
}

// proofWork is the units of an attempt to prove something, for each term and factor, at least.
const proofWork = 4

// atMost reports whether it is proved that x ≤ y in all of a region.
func (r *region) atMost(x, y symbolic.Expr) bool { return r.notNegative(y.Sub(x)) }

// Rises reports whether it is proved that an expression does not fall as a symbol grows, in all of a
// box.
func Rises(e symbolic.Expr, box Box, symbol string) bool {
	within := slices.Clone(box)
	for i := range within {
		if within[i].Symbol != symbol {
			continue
		}
		if within[i].Lo == within[i].Hi {
			return true
		}
		within[i].Hi--
	}
	r := newRegion(within, NewWork(math.MaxInt64))
	next := e.Subst(map[string]symbolic.Expr{symbol: symbolic.Sym(symbol).Add(symbolic.Const(1))})
	return r.atMost(e.Bind(r.fixed), next.Bind(r.fixed))
}
