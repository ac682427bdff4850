package symbolic

import (
	"cmp"
	"math/big"
	"slices"
)

// rank is the first thing that sympy sorts by: the class of an expression.
type rank uint8

const (
	rankNumber rank = iota
	rankSymbol
	rankMul
	rankAdd
	rankMod
	rankCeiling
	rankFloor
	rankMax
	rankMin
)

// sortKey orders what an expression displays as sympy's default_sort_key does. It is that of
// coef*base**exp, the class, name and arguments being those of the base.
type sortKey struct {
	rank rank
	name string // of a symbol
	args []sortKey
	exp  int64
	coef ratio // of a number: its value
}

func (k sortKey) compare(l sortKey) int {
	order := cmp.Or(
		cmp.Compare(k.rank, l.rank),
		cmp.Compare(len(k.args), len(l.args)),
		cmp.Compare(k.name, l.name),
		slices.CompareFunc(k.args, l.args, sortKey.compare),
		cmp.Compare(k.exp, l.exp),
	)
	if order != 0 {
		return order
	}
	return k.coef.compare(l.coef)
}

// ratio is a rational number in lowest terms, den > 0.
type ratio struct{ num, den int64 }

// newRatio returns num/den, den > 0.
func newRatio(num, den int64) ratio {
	g := int64(gcdInt(magnitude(num), uint64(den)))
	return ratio{num / g, den / g}
}

func (r ratio) compare(s ratio) int {
	if r == s {
		return 0
	}
	return big.NewRat(r.num, r.den).Cmp(big.NewRat(s.num, s.den))
}
