package symbolic

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// String prints a as sympy's str does: terms in lexicographic order of their products, ** for
// powers, floor(batch/2), ceiling, Mod, Min, Max. Names that are not identifiers are in backquotes.
// Unknown prints as ?, a failed value as its error in angle brackets. [Parse] reads everything but
// the last.
func (a Expr) String() string {
	switch {
	case a.p == nil:
		return strconv.FormatInt(a.c, 10)
	case a.IsUnknown():
		return "?"
	case !a.IsKnown():
		return "<" + a.Err().Error() + ">"
	}
	return string(appendSum(nil, displayTerms(a, 1), exactNumber))
}

// part is one printed term: coef times powers of bases, some with negative exponents.
type part struct {
	coef  ratio
	bases []base
}

// base is something that displays with an exponent: an atom, or a polynomial in parentheses.
type base struct {
	key  sortKey
	atom *atom // nil for a polynomial
	ceil Expr  // of an atom that displays as a ceiling: the expression ceil/den, else 0
	den  Expr
	poly Expr
	exp  int32
}

// displayTerms returns the terms of e/den in their printing order, den > 0.
func displayTerms(e Expr, den int64) []part {
	var buf [1]term
	parts := make([]part, 0, e.termCount())
	for _, t := range e.terms(&buf) {
		parts = append(parts, displayTerm(t, den, true))
	}
	if e.p == nil {
		return parts
	}
	if e.p.depth > 0 { // of symbols alone, the normal form has the same order
		slices.SortFunc(parts, func(x, y part) int { return compareBases(x.bases, y.bases) })
	}
	if len(parts) == 2 && constantFirst(parts) {
		slices.Reverse(parts)
	}
	return parts
}

// constantFirst tells of two terms whether sympy swaps them: it writes 1 - x, but -x*y + 1.
func constantFirst(parts []part) bool {
	x, c := parts[0], parts[1]
	return len(c.bases) == 0 && !c.coef.negative && x.coef.negative && len(x.bases) == 1
}

// displayTerm returns how t/den displays, den > 0. Ceilings may turn its sign where mayNegate.
func displayTerm(t term, den int64, mayNegate bool) part {
	p := part{coef: newRatio(t.coef, den)}
	mayNegate = mayNegate && t.coef != minInt64 // whose opposite no text can express
	for _, f := range t.mono.factors {
		b, negative := displayAtom(f.atom, mayNegate)
		b.exp = f.pow
		p.bases = append(p.bases, b)
		if negative && f.pow%2 == 1 {
			p.coef.negative = !p.coef.negative
		}
	}
	if t.mono.depth > 0 {
		slices.SortFunc(p.bases, func(x, y base) int { return x.key.compare(y.key) })
	}
	return p
}

// compareBases orders products as compareMonos does, but by their printed form.
func compareBases(a, b []base) int {
	for i := 0; ; i++ {
		switch {
		case i == len(a) && i == len(b):
			return 0
		case i == len(a):
			return 1
		case i == len(b):
			return -1
		}
		if order := a[i].key.compare(b[i].key); order != 0 {
			return order
		}
		if a[i].exp != b[i].exp {
			return int(b[i].exp) - int(a[i].exp)
		}
	}
}

// displayAtom returns how an atom displays, up to the exponent, and whether its value is
// minus that of the displayed, which only happens where mayNegate.
func displayAtom(a *atom, mayNegate bool) (b base, negative bool) {
	b.atom = a
	switch a.kind {
	case kindSymbol:
		b.key = sortKey{rank: rankSymbol, name: a.name, exp: 1, coef: one}
		return b, false
	case kindFloor:
		num, den := a.args[0], a.args[1]
		b.key.rank = rankFloor
		if ceil, minus, ok := asCeiling(num, den); ok && (mayNegate || !minus) {
			num, negative = ceil, minus
			b.ceil = num
			b.key.rank = rankCeiling
		}
		b.den = den
		b.key.args = []sortKey{fractionKey(num, den)}
	case kindMod:
		b.key.rank = rankMod
		b.key.args = exprKeys(a.args)
	case kindMin, kindMax:
		b.key.rank = rankMin
		if a.kind == kindMax {
			b.key.rank = rankMax
		}
		b.key.args = exprKeys(a.args)
		slices.SortFunc(b.key.args, sortKey.compare)
	}
	b.key.exp, b.key.coef = 1, one
	return b, negative
}

// asCeiling returns the dividend of the ceiling that floor(num/den) displays as:
// floor((p + k - 1)/k) as ceiling(p/k), and floor(-p/q) as -ceiling(p/q) where q is not constant.
func asCeiling(num, den Expr) (p Expr, negative, ok bool) {
	if k, isConst := den.Const(); isConst {
		c, rest := constantTerm(num)
		return rest, false, c == k-1
	}
	if !num.negativeLead() {
		return num, false, false
	}
	p = num.Neg()
	return p, true, p.IsKnown()
}

func exprKeys(list []Expr) []sortKey {
	keys := make([]sortKey, len(list))
	for i, e := range list {
		keys[i] = fractionKey(e, Const(1))
	}
	return keys
}

// fractionKey returns the key of num/den.
func fractionKey(num, den Expr) sortKey {
	if k, ok := den.Const(); ok && num.termCount() > 1 {
		return sumKey(num, k)
	}
	return displayFraction(num, den).key()
}

// sumKey returns the key of e/den, where e has several terms.
func sumKey(e Expr, den int64) sortKey {
	key := sortKey{rank: rankAdd, exp: 1, coef: one}
	for _, p := range displayTerms(e, den) {
		key.args = append(key.args, p.key())
	}
	return key
}

// key returns the key of one term, whose bases are sorted.
func (p part) key() sortKey {
	switch len(p.bases) {
	case 0:
		return sortKey{rank: rankNumber, coef: p.coef}
	case 1:
		k := p.bases[0].key
		k.exp, k.coef = int64(p.bases[0].exp), p.coef
		return k
	}
	key := sortKey{rank: rankMul, exp: 1, coef: p.coef}
	for _, b := range p.bases {
		k := b.key
		k.exp = int64(b.exp)
		key.args = append(key.args, k)
	}
	return key
}

// displayFraction returns num/den as one term. Unless den is constant and num has several
// terms (that displays as a sum), polynomials of several terms become bases.
func displayFraction(num, den Expr) part {
	top := displayPoly(num, true)
	bottom := displayPoly(den, num.Neg().IsKnown()) // a sign from below moves to the top
	p := part{coef: top.coef.over(bottom.coef), bases: top.bases}
	for _, b := range bottom.bases {
		b.exp = -b.exp
		p.bases = append(p.bases, b)
	}
	slices.SortFunc(p.bases, func(x, y base) int { return x.key.compare(y.key) })
	return p
}

// displayPoly returns e as one term, with a polynomial of several terms as a base.
func displayPoly(e Expr, mayNegate bool) part {
	if e.termCount() > 1 {
		return part{coef: one, bases: []base{{key: sumKey(e, 1), poly: e, exp: 1}}}
	}
	var buf [1]term
	for _, t := range e.terms(&buf) {
		return displayTerm(t, 1, mayNegate)
	}
	return part{coef: ratioOf(0)}
}

// numberFormat appends a coefficient's absolute value, unless a product is written without it.
type numberFormat func(buf []byte, abs ratio, alone bool) (_ []byte, written bool)

func exactNumber(buf []byte, r ratio, alone bool) ([]byte, bool) {
	if r.num == 1 && !alone {
		return buf, false
	}
	return strconv.AppendUint(buf, r.num, 10), true
}

func appendSum(buf []byte, parts []part, number numberFormat) []byte {
	for i, p := range parts {
		negative := p.coef.negative
		switch {
		case i > 0 && negative:
			buf = append(buf, " - "...)
		case i > 0:
			buf = append(buf, " + "...)
		case negative:
			buf = append(buf, '-')
		}
		buf = appendPart(buf, p, number)
	}
	return buf
}

// appendPart appends the absolute value of a term: numerators, and after a slash denominators.
func appendPart(buf []byte, p part, number numberFormat) []byte {
	var below []base
	above := 0
	for _, b := range p.bases {
		if b.exp < 0 {
			below = append(below, b)
		} else {
			above++
		}
	}
	buf, written := number(buf, p.coef, above == 0)
	// sympy writes Mod as an operator in a product: in parentheses, except after a minus sign.
	wrapMod := !p.coef.negative && (len(p.bases) > 1 || p.coef.den != 1)
	for _, b := range p.bases {
		if b.exp < 0 {
			continue
		}
		if written {
			buf = append(buf, '*')
		}
		buf, written = appendBase(buf, b, b.exp, wrapMod || written && !p.coef.negative), true
	}
	divisors := len(below)
	if p.coef.den != 1 {
		divisors++
	}
	if divisors == 0 {
		return buf
	}
	buf = append(buf, '/')
	if divisors > 1 {
		buf = append(buf, '(')
	}
	if p.coef.den != 1 {
		buf = strconv.AppendUint(buf, p.coef.den, 10)
	}
	for i, b := range below {
		if i > 0 || p.coef.den != 1 {
			buf = append(buf, '*')
		}
		buf = appendBase(buf, b, -b.exp, wrapMod)
	}
	if divisors > 1 {
		buf = append(buf, ')')
	}
	return buf
}

func appendBase(buf []byte, b base, exp int32, wrapMod bool) []byte {
	wrap := b.atom == nil || b.key.rank == rankMod && (wrapMod || exp != 1)
	if wrap {
		buf = append(buf, '(')
	}
	if b.atom == nil {
		buf = appendSum(buf, displayTerms(b.poly, 1), exactNumber)
	} else {
		buf = appendAtom(buf, b)
	}
	if wrap {
		buf = append(buf, ')')
	}
	if exp != 1 {
		buf = append(buf, "**"...)
		buf = strconv.AppendInt(buf, int64(exp), 10)
	}
	return buf
}

func appendAtom(buf []byte, b base) []byte {
	switch b.key.rank {
	case rankSymbol:
		return appendName(buf, b.atom.name)
	case rankFloor:
		return appendFraction(append(buf, "floor("...), b.atom.args[0], b.den)
	case rankCeiling:
		return appendFraction(append(buf, "ceiling("...), b.ceil, b.den)
	case rankMod:
		return appendArgs(append(buf, "Mod("...), b.atom.args)
	}
	args := slices.Clone(b.atom.args)
	slices.SortStableFunc(args, func(x, y Expr) int {
		return fractionKey(x, Const(1)).compare(fractionKey(y, Const(1)))
	})
	if b.key.rank == rankMax {
		return appendArgs(append(buf, "Max("...), args)
	}
	return appendArgs(append(buf, "Min("...), args)
}

// appendFraction appends num/den and the closing parenthesis.
func appendFraction(buf []byte, num, den Expr) []byte {
	if k, ok := den.Const(); ok {
		return append(appendSum(buf, displayTerms(num, k), exactNumber), ')')
	}
	return append(appendSum(buf, []part{displayFraction(num, den)}, exactNumber), ')')
}

// appendArgs appends the arguments and the closing parenthesis.
func appendArgs(buf []byte, args []Expr) []byte {
	for i, arg := range args {
		if i > 0 {
			buf = append(buf, ", "...)
		}
		buf = append(buf, arg.String()...)
	}
	return append(buf, ')')
}

// appendName appends a symbol's name, in backquotes unless it is an identifier; a backquote in
// it is doubled.
func appendName(buf []byte, name string) []byte {
	if isIdentifier(name) {
		return append(buf, name...)
	}
	buf = append(buf, '`')
	buf = append(buf, strings.ReplaceAll(name, "`", "``")...)
	return append(buf, '`')
}

func isIdentifier(name string) bool {
	for i, r := range name {
		if !isNameRune(r, i == 0) {
			return false
		}
	}
	return name != ""
}

// isNameRune reports whether r may be in an identifier, or start one.
func isNameRune(r rune, first bool) bool {
	return r == '_' || r != unicode.ReplacementChar && unicode.IsLetter(r) || !first && '0' <= r && r <= '9'
}
