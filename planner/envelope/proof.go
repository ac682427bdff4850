package envelope

import (
	"slices"

	"memopt/symbolic"
)

// maxMirrored bounds the symbols of which both directions are tried.
const maxMirrored = 3

// notNegative reports whether it is proved that an expression is at least 0 in all of a box.
//
// symbolic.AtMost measures symbols from where their ranges begin. What is smallest at the other end
// of a range, as n*(9 - n) up to 8 is, shows only when the symbol runs backwards.
func notNegative(e symbolic.Expr, box Box) bool {
	if n, constant := e.Const(); constant {
		return n >= 0
	}
	if !e.IsKnown() {
		return false
	}
	for _, env := range [...]symbolic.Env{box.Low(), box.High()} {
		if n, err := e.Eval(env); err != nil || n < 0 {
			return false
		}
	}
	bounds := box.bounds()
	var wide []Axis
	for _, a := range box {
		if a.Lo != a.Hi {
			wide = append(wide, a)
		}
	}
	for mask := range 1 << min(len(wide), maxMirrored) {
		mirrored := map[string]symbolic.Expr{}
		for i, a := range wide[:min(len(wide), maxMirrored)] {
			if mask>>i&1 == 1 {
				mirrored[a.Symbol] = symbolic.Const(a.Lo + a.Hi).Sub(symbolic.Sym(a.Symbol))
			}
		}
		if symbolic.AtMost(symbolic.Const(0), e.Subst(mirrored), bounds) {
			return true
		}
	}
	return false
}

// atMost reports whether it is proved that x ≤ y in all of a box.
func atMost(x, y symbolic.Expr, box Box) bool { return notNegative(y.Sub(x), box) }

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
	next := e.Subst(map[string]symbolic.Expr{symbol: symbolic.Sym(symbol).Add(symbolic.Const(1))})
	return atMost(e.Bind(within.fixed()), next.Bind(within.fixed()), within)
}
