package symbolic

// Ordering is the result of comparing two expressions for all values of their symbols.
type Ordering uint8

// The orderings.
const (
	Incomparable Ordering = iota // not proved: it depends on the values, or is beyond the method
	Less
	Equal
	Greater
)

// String returns the name of the ordering in lower case.
func (o Ordering) String() string {
	return [...]string{"incomparable", "less", "equal", "greater"}[o]
}

// Compare returns how a relates to b for all values of the symbols within bounds, or Incomparable
// if it finds no proof. The answer is true wherever both have a value.
//
// The method is incomplete but cheap: interval arithmetic on a - b, first as it is, then with every
// symbol measured from its bound (so that batch*seq - batch is seen to be at least 0), and again
// with floor, Mod, Min and Max replaced by their bounds.
func Compare(a, b Expr, bounds Bounds) Ordering {
	if !a.IsKnown() || !b.IsKnown() {
		return Incomparable
	}
	switch {
	case a.Equal(b):
		return Equal
	case less(b, a, 1, bounds):
		return Greater
	case less(a, b, 1, bounds):
		return Less
	}
	return Incomparable
}

// AtMost reports whether a ≤ b is proved for all values of the symbols within bounds: batch ≤
// batch*seq, for example, is proved for dims.
func AtMost(a, b Expr, bounds Bounds) bool {
	proved, _ := ProveAtMost(a, b, bounds)
	return proved
}

// ProveAtMost is AtMost, and returns the work of the proof or of the search for one: the terms and factors
// that it looked at. A search that fails looks at up to some thousand times the size of b - a.
func ProveAtMost(a, b Expr, bounds Bounds) (proved bool, work int) {
	if !a.IsKnown() || !b.IsKnown() {
		return false, 0
	}
	if a.Equal(b) {
		return true, a.Size()
	}
	p := prover{bounds: bounds}
	proved = p.less(a, b, 0) || p.less(a, b, 1) // either may overflow or run out of steps
	return proved, p.work
}

// less reports whether a + gap ≤ b is proved.
func less(a, b Expr, gap int64, bounds Bounds) bool {
	p := prover{bounds: bounds}
	return p.less(a, b, gap)
}

func (p *prover) less(a, b Expr, gap int64) bool {
	d := b.Sub(a).Sub(Const(gap))
	if !d.IsKnown() { // the difference left the limits; the operands alone may still tell
		_, hi, _, ok := a.Bounds(p.bounds)
		lo, _, ok2, _ := b.Bounds(p.bounds)
		c, fits := addInt(hi, gap)
		return ok && ok2 && fits && c <= lo
	}
	p.steps = maxProofSteps
	return p.nonNegative(d)
}

// Limits of a proof.
const (
	maxProofSteps = 64  // expressions looked at
	maxProofTerms = 128 // terms of one of them, for more than plain interval arithmetic
	maxShiftPower = 8   // degree of one whose symbols are measured from their bounds
	shiftWork     = 16  // work of measuring them so, for each term and factor
)

type prover struct {
	bounds Bounds
	steps  int // that are left
	work   int // terms and factors looked at
}

// nonNegative reports whether d ≥ 0 is proved.
func (p *prover) nonNegative(d Expr) bool {
	if p.steps--; p.steps < 0 || !d.IsKnown() {
		return false
	}
	p.work += d.Size()
	if evalInterval(d, p.bounds.interval).lo >= 0 {
		return true
	}
	if d.termCount() > maxProofTerms || d.p == nil {
		return false
	}
	return p.shifted(d) || p.relaxed(d)
}

// shifted tries interval arithmetic on d with each symbol x replaced by x + lo, or by hi - x
// where it has only an upper bound, so that the new x starts at 0 and terms that cancel at the
// bound do cancel.
func (p *prover) shifted(d Expr) bool {
	if d.degree() > maxShiftPower {
		return false
	}
	p.work += shiftWork * d.Size()
	moved := Bounds{}
	values := map[string]Expr{}
	d.VisitSymbols(func(name string) {
		r := p.bounds.interval(name)
		switch {
		case r.lo != minInt64:
			values[name] = Sym(name).Add(Const(r.lo))
			moved[name] = Range{0, satAddHi(r.hi, satMul(r.lo, -1))}
		case r.hi != maxInt64:
			values[name] = Const(r.hi).Sub(Sym(name))
			moved[name] = Range{0, maxInt64}
		default:
			moved[name] = Range{minInt64, maxInt64}
		}
	})
	e := d.Subst(values)
	return e.IsKnown() && evalInterval(e, moved.interval).lo >= 0
}

// relaxed tries to prove d ≥ 0 through a smaller expression without one of d's atoms.
func (p *prover) relaxed(d Expr) bool {
	if d.p.depth == 0 {
		return false
	}
	for _, t := range d.p.terms {
		for _, f := range t.mono.factors {
			if f.atom.kind == kindSymbol || f.pow != 1 {
				continue
			}
			p.work += d.Size()
			if cof, rest, ok := linear(d, f.atom); ok && p.without(f.atom, cof, rest) {
				return true
			}
		}
	}
	return false
}

// linear returns d as cof*x + rest, if x has no higher power in d.
func linear(d Expr, x *atom) (cof, rest Expr, ok bool) {
	var with, without []term
	for _, t := range d.p.terms {
		m, divides := divMonos(t.mono, &x.mono)
		if !divides {
			without = append(without, t)
			continue
		}
		if _, again := divMonos(m, &x.mono); again {
			return cof, rest, false
		}
		with = append(with, term{t.coef, m})
	}
	return fromTerms(with), fromTerms(without), true
}

// without reports whether cof*x + rest ≥ 0 is proved by bounding x.
func (p *prover) without(x *atom, cof, rest Expr) bool {
	v := evalInterval(cof, p.bounds.interval)
	up, down := v.lo >= 0, v.hi <= 0
	with := func(bound Expr) bool { return p.nonNegative(cof.Mul(bound).Add(rest)) }
	switch x.kind {
	case kindMax, kindMin:
		// x is one of its operands; and in the good direction each of them is a bound.
		if (x.kind == kindMax && up) || (x.kind == kindMin && down) {
			return anyOf(x.args, with)
		}
		return !anyOf(x.args, func(e Expr) bool { return !with(e) })
	}
	a, b := x.args[0], x.args[1]
	if evalInterval(b, p.bounds.interval).lo < 1 || !(up || down) {
		return false
	}
	if x.kind == kindMod { // from 0 to b - 1, and at most a where a ≥ 0
		if up {
			return p.nonNegative(rest)
		}
		return with(b.Sub(Const(1))) || evalInterval(a, p.bounds.interval).lo >= 0 && with(a)
	}
	// b*floor(a/b) is from a - b + 1 to a, and an integer n has n ≥ 0 if b*n > -b.
	bound := a
	if up {
		bound = a.Sub(b).Add(Const(1))
	}
	return p.nonNegative(cof.Mul(bound).Add(rest.Mul(b)).Add(b).Sub(Const(1)))
}

func anyOf(list []Expr, f func(Expr) bool) bool {
	for _, e := range list {
		if f(e) {
			return true
		}
	}
	return false
}
