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

// sortKey orders the terms of a printed expression as sympy's default_sort_key does. It is that of
// coef*base**exp: rank, name and args are those of the base.
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

// ratio is a rational number in lowest terms, den > 0. Sign and magnitude are apart, because the
// opposite of every int64 must fit.
type ratio struct {
	negative bool
	num, den uint64
}

var one = ratio{num: 1, den: 1}

// newRatio returns num/den, den not 0.
func newRatio(num, den int64) ratio { return ratioOf(num).over(ratioOf(den)) }

func ratioOf(x int64) ratio { return ratio{x < 0, magnitude(x), 1} }

// over returns the quotient of two whole numbers.
func (r ratio) over(s ratio) ratio {
	g := GCD(r.num, s.num)
	return ratio{r.negative != s.negative, r.num / g, s.num / g}
}

func (r ratio) compare(s ratio) int {
	if r == s {
		return 0
	}
	return r.big().Cmp(s.big())
}

func (r ratio) big() *big.Rat {
	num := new(big.Int).SetUint64(r.num)
	if r.negative {
		num.Neg(num)
	}
	return new(big.Rat).SetFrac(num, new(big.Int).SetUint64(r.den))
}
