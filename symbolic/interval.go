package symbolic

import "math/bits"

// Range is the set of values from Lo to Hi, both included. As symbols are int64, Lo =
// math.MinInt64 and Hi = math.MaxInt64 mean that there is no bound.
type Range struct{ Lo, Hi int64 }

// Bounds says which values symbols may take. A symbol that is absent is a dim: at least 1,
// without an upper bound. A Range with Lo > Hi holds no value and is read as no bound at all.
type Bounds map[string]Range

// Dim is the range of a symbol without a stated range.
var Dim = Range{1, maxInt64}

func (b Bounds) interval(name string) interval {
	r, ok := b[name]
	switch {
	case !ok:
		r = Dim
	case r.Lo > r.Hi:
		return anyInteger(name)
	}
	return newInterval(r.Lo, r.Hi)
}

// interval is a set of integers, not only 64-bit ones, that holds every value of an
// expression. lo = minInt64 means unbounded below, hi = maxInt64 unbounded above; a lower bound
// is never maxInt64 and an upper one never minInt64 (a weaker bound is true as well).
type interval struct{ lo, hi int64 }

var all = interval{minInt64, maxInt64}

func anyInteger(string) interval { return all }

func newInterval(lo, hi int64) interval {
	return interval{min(lo, maxInt64-1), max(hi, minInt64+1)}
}

func point(c int64) interval { return newInterval(c, c) }

// satMul returns a*b, where the extreme values stand for infinities, 0 times infinity is 0, and
// a product beyond int64 is infinite.
func satMul(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	infinite := a == minInt64 || a == maxInt64 || b == minInt64 || b == maxInt64
	if c, ok := mulInt(a, b); ok && !infinite {
		return c
	}
	if (a < 0) != (b < 0) {
		return minInt64
	}
	return maxInt64
}

func satAddLo(a, b int64) int64 {
	if a == minInt64 || b == minInt64 {
		return minInt64
	}
	return satAdd(a, b)
}

func satAddHi(a, b int64) int64 {
	if a == maxInt64 || b == maxInt64 {
		return maxInt64
	}
	return satAdd(a, b)
}

func satAdd(a, b int64) int64 {
	if c, ok := addInt(a, b); ok {
		return c
	}
	if a < 0 {
		return minInt64
	}
	return maxInt64
}

func (v interval) add(w interval) interval {
	return newInterval(satAddLo(v.lo, w.lo), satAddHi(v.hi, w.hi))
}

func (v interval) neg() interval { return newInterval(satMul(v.hi, -1), satMul(v.lo, -1)) }

func (v interval) mul(w interval) interval {
	a, b, c, d := satMul(v.lo, w.lo), satMul(v.lo, w.hi), satMul(v.hi, w.lo), satMul(v.hi, w.hi)
	return newInterval(min(a, b, c, d), max(a, b, c, d))
}

func (v interval) pow(n int32) interval {
	r := point(1)
	for b := 31 - bits.LeadingZeros32(uint32(n)); b >= 0; b-- {
		r = r.mul(r)
		if n>>b&1 == 1 {
			r = r.mul(v)
		}
	}
	if n%2 == 0 {
		r.lo = max(r.lo, 0)
	}
	return r
}

// floorInterval returns the values of floor(v/w).
func floorInterval(v, w interval) interval {
	if w.hi < 0 {
		v, w = v.neg(), w.neg()
	}
	if w.lo <= 0 {
		return all
	}
	near, far := w.lo, w.hi // the divisors that are nearest to zero and farthest from it
	lo, hi := v.lo, v.hi
	if lo != minInt64 {
		lo = floorBy(lo, near, far)
	}
	if hi != maxInt64 {
		hi = floorBy(hi, far, near)
	}
	return newInterval(lo, hi)
}

// floorBy returns floor(x/d) with d = negative if x < 0, and d = positive otherwise; an infinite
// divisor leaves only the sign.
func floorBy(x, negative, positive int64) int64 {
	d := positive
	if x < 0 {
		d = negative
	}
	if d == maxInt64 {
		return x >> 63 // -1 or 0
	}
	q, _ := floorDivInt(x, d)
	return q
}

// modInterval returns the values of Mod(v, w).
func modInterval(v, w interval) interval {
	switch {
	case w.hi < 0:
		return modInterval(v.neg(), w.neg()).neg()
	case w.lo <= 0:
		return all
	case v.lo >= 0 && v.hi < w.lo:
		return v
	}
	hi := int64(maxInt64)
	if w.hi != maxInt64 {
		hi = w.hi - 1
	}
	if v.lo >= 0 {
		hi = min(hi, v.hi)
	}
	return newInterval(0, hi)
}

// evalInterval returns an interval that holds every value of a known expression, given one for
// each symbol.
func evalInterval(e Expr, symbol func(string) interval) interval {
	if e.p == nil {
		return point(e.c)
	}
	sum := point(0)
	for _, t := range e.p.terms {
		v := point(t.coef)
		for _, f := range t.mono.factors {
			v = v.mul(f.atom.interval(symbol).pow(f.pow))
		}
		sum = sum.add(v)
		if sum == all {
			break
		}
	}
	return sum
}

func (a *atom) interval(symbol func(string) interval) interval {
	if a.kind == kindSymbol {
		return symbol(a.name)
	}
	v := evalInterval(a.args[0], symbol)
	switch a.kind {
	case kindFloor:
		return floorInterval(v, evalInterval(a.args[1], symbol))
	case kindMod:
		return modInterval(v, evalInterval(a.args[1], symbol))
	}
	for _, arg := range a.args[1:] {
		w := evalInterval(arg, symbol)
		if a.kind == kindMin {
			v = interval{min(v.lo, w.lo), min(v.hi, w.hi)}
		} else {
			v = interval{max(v.lo, w.lo), max(v.hi, w.hi)}
		}
	}
	return v
}

// Bounds returns a lower and an upper bound of a over all values of its symbols within b, each
// with whether there is one. They need not be attained: each term is bounded alone.
func (a Expr) Bounds(b Bounds) (lo, hi int64, loOK, hiOK bool) {
	if !a.IsKnown() {
		return 0, 0, false, false
	}
	v := evalInterval(a, b.interval)
	return v.lo, v.hi, v.lo != minInt64, v.hi != maxInt64
}
