package symbolic

// FloorDiv returns a/b rounded down, as Python's a // b: -3 // 2, for example, is -2.
func (a Expr) FloorDiv(b Expr) Expr {
	if a.p == nil && b.p == nil && b.c != 0 {
		return constant(floorDivInt(a.c, b.c))
	}
	a, b, done := divisor(a, b)
	if done {
		return a
	}
	if k, ok := b.Const(); ok {
		return floorByConst(a, k)
	}
	return floorByExpr(a, b)
}

// CeilDiv returns a/b rounded up.
func (a Expr) CeilDiv(b Expr) Expr {
	if a.p == nil && b.p == nil && b.c != 0 {
		return constant(ceilDivInt(a.c, b.c))
	}
	a, b, done := divisor(a, b)
	if done {
		return a
	}
	if k, ok := b.Const(); ok {
		return ceilByConst(a, k)
	}
	return a.Neg().FloorDiv(b).Neg()
}

// Mod returns a - b*floor(a/b), which is 0 or has the sign of b, as Python's a % b.
func (a Expr) Mod(b Expr) Expr {
	if a.p == nil && b.p == nil && b.c != 0 {
		return Const(modInt(a.c, b.c))
	}
	negative := b.negativeLead()
	a, b, done := divisor(a, b)
	if done {
		return a
	}
	var m Expr
	if k, ok := b.Const(); ok {
		m = modByConst(a, k)
	} else {
		m = modByExpr(a, b)
	}
	if negative {
		return m.Neg()
	}
	return m
}

// divisor prepares a division: it makes the leading coefficient of b positive, which turns
// the sign of a too. If done, the result is a, whatever the kind of division: 0 or no value.
func divisor(a, b Expr) (_, _ Expr, done bool) {
	s := max(a.state(), b.state())
	if s == stateKnown && b.IsConst(0) {
		s = stateDivisionByZero
	}
	switch {
	case s != stateKnown:
		return without(s), b, true
	case a.IsConst(0):
		return a, b, true
	}
	if b.negativeLead() {
		a, b = a.Neg(), b.Neg()
		if s := max(a.state(), b.state()); s != stateKnown {
			return without(s), b, true
		}
	}
	return a, b, false
}

func (a Expr) negativeLead() bool {
	if a.p == nil {
		return a.c < 0
	}
	return a.p.state == stateKnown && a.p.terms[0].coef < 0
}

// splitBy returns q and r with a = k*q + r and the coefficients of r in [0, k), k > 0.
func splitBy(a Expr, k int64) (q, r Expr) {
	var buf [1]term
	var quo, rem []term
	for _, t := range a.terms(&buf) {
		c, _ := floorDivInt(t.coef, k)
		if c != 0 {
			quo = append(quo, term{c, t.mono})
		}
		if c := modInt(t.coef, k); c != 0 {
			rem = append(rem, term{c, t.mono})
		}
	}
	return fromTerms(quo), fromTerms(rem)
}

// constantTerm returns the constant term of a, and a without it.
func constantTerm(a Expr) (int64, Expr) {
	if a.p == nil {
		return a.c, Expr{}
	}
	last := len(a.p.terms) - 1
	if t := a.p.terms[last]; t.mono == unit {
		return t.coef, fromTerms(a.p.terms[:last])
	}
	return 0, a
}

// content returns the greatest common divisor of the coefficients of a and of k.
func content(a Expr, k uint64) uint64 {
	var buf [1]term
	for _, t := range a.terms(&buf) {
		k = GCD(k, magnitude(t.coef))
	}
	return k
}

// divideAll returns a/(g*m), which must divide every term.
func divideAll(a Expr, g int64, m *mono) Expr {
	if g == 1 && m == unit {
		return a
	}
	var buf [1]term
	terms := a.terms(&buf)
	out := make([]term, len(terms))
	for i, t := range terms {
		q, _ := divMonos(t.mono, m)
		out[i] = term{t.coef / g, q}
	}
	return fromTerms(out)
}

// floorByConst returns floor(a/k), k > 0.
func floorByConst(a Expr, k int64) Expr {
	if k == 1 {
		return a
	}
	q, r := splitBy(a, k)
	return q.Add(floorRest(r, k))
}

// ceilByConst returns floor((a + k - 1)/k), k > 0, without an overflow on the way.
func ceilByConst(a Expr, k int64) Expr {
	if k == 1 {
		return a
	}
	q, r := splitBy(a, k)
	c, rest := constantTerm(r)
	if c == 0 {
		c = k - 1
	} else {
		c--
		q = q.Add(Const(1))
	}
	return q.Add(floorRest(rest.Add(Const(c)), k))
}

// floorRest returns floor(r/k) where k > 1 and the coefficients of r are in [0, k).
func floorRest(r Expr, k int64) Expr {
	c, rest := constantTerm(r)
	if rest.p == nil {
		return Expr{}
	}
	g := int64(content(rest, uint64(k)))
	if g > 1 {
		r = divideAll(rest, g, unit).Add(Const(c / g))
		if k /= g; k == 1 {
			return r
		}
	}
	if nested, wider, ok := joinFloors(r, k); ok {
		return floorByConst(nested, wider)
	}
	return newFloor(r, Const(k))
}

// newFloor returns floor(a/b) as an atom, unless its value never changes.
func newFloor(a, b Expr) Expr {
	if a.nested() || b.nested() { // no rule applies to plain symbols
		v := floorInterval(evalInterval(a, anyInteger), evalInterval(b, anyInteger))
		if v.lo == v.hi {
			return Const(v.lo)
		}
	}
	return newAtom(kindFloor, a, b)
}

// newMod returns Mod(a, b) as an atom, unless a is always from 0 to b - 1 already.
func newMod(a, b Expr) Expr {
	if a.nested() || b.nested() {
		if v := evalInterval(a, anyInteger); v.lo >= 0 && v.hi < evalInterval(b, anyInteger).lo {
			return a
		}
	}
	return newAtom(kindMod, a, b)
}

// nested reports whether a has atoms other than symbols.
func (a Expr) nested() bool { return a.p != nil && a.p.depth > 0 }

// joinFloors rewrites floor((floor(a/m) + z)/k) as floor((a + m*z)/(m*k)), the first floor in r
// that has coefficient 1 and a constant divisor being the one to open. It returns the new
// dividend and divisor, and declines where those would not fit.
func joinFloors(r Expr, k int64) (Expr, int64, bool) {
	for _, t := range r.p.terms {
		a := t.mono.alone()
		if t.coef != 1 || a == nil || a.kind != kindFloor {
			continue
		}
		m, ok := a.args[1].Const()
		if !ok {
			continue
		}
		wider, ok := mulInt(m, k)
		if !ok {
			return Expr{}, 0, false
		}
		dividend := a.args[0].Add(r.Sub(a.expr).Mul(Const(m)))
		return dividend, wider, dividend.IsKnown()
	}
	return Expr{}, 0, false
}

// modByConst returns Mod(a, k), k > 0.
func modByConst(a Expr, k int64) Expr {
	_, r := splitBy(a, k)
	for opened, ok := openMod(r, k); ok; opened, ok = openMod(r, k) {
		_, r = splitBy(opened, k)
	}
	c, rest := constantTerm(r)
	if rest.p == nil {
		return Const(c)
	}
	g := int64(content(rest, uint64(k)))
	if g > 1 {
		inner := modByConst(divideAll(rest, g, unit).Add(Const(c/g)), k/g)
		return inner.Mul(Const(g)).Add(Const(c % g))
	}
	return newMod(r, Const(k))
}

// openMod replaces the first c*Mod(b, m) in r by c*b if k divides c*m: inside Mod(., k) that makes
// no difference. It reports whether it found one that fits.
func openMod(r Expr, k int64) (Expr, bool) {
	if !r.nested() {
		return r, false
	}
	for _, t := range r.p.terms {
		x := t.mono.alone()
		if x == nil || x.kind != kindMod {
			continue
		}
		m, ok := x.args[1].Const()
		if !ok || modInt(t.coef, k/int64(GCD(uint64(k), uint64(m)))) != 0 {
			continue
		}
		opened := r.Add(x.args[0].Sub(x.expr).Mul(Const(t.coef)))
		if opened.IsKnown() {
			return opened, true
		}
	}
	return r, false
}

// floorByExpr returns floor(a/b), where b is not constant and its leading coefficient is
// positive.
func floorByExpr(a, b Expr) Expr {
	a, b, _, _ = cancel(a, b)
	if k, ok := b.Const(); ok {
		return floorByConst(a, k)
	}
	if q, r, ok := reduce(a, b); ok {
		return q.Add(r.FloorDiv(b))
	}
	return newFloor(a, b)
}

// modByExpr returns Mod(a, b), where b is not constant and its leading coefficient is positive.
func modByExpr(a, b Expr) Expr {
	a, b, g, m := cancel(a, b)
	common := single(g, m)
	if k, ok := b.Const(); ok {
		return modByConst(a, k).Mul(common)
	}
	if _, r, ok := reduce(a, b); ok {
		return r.Mod(b).Mul(common)
	}
	return newMod(a, b).Mul(common)
}

// cancel divides a and b by their greatest common divisor of the form g*m, g > 0.
func cancel(a, b Expr) (_, _ Expr, g int64, m *mono) {
	var buf [1]term
	m = b.p.terms[0].mono
	for _, t := range b.p.terms {
		m = commonMono(m, t.mono)
	}
	for _, t := range a.terms(&buf) {
		if m == unit {
			break
		}
		m = commonMono(m, t.mono)
	}
	// The leading coefficient of b is positive, so the divisor is below 1<<63.
	g = int64(content(a, content(b, 0)))
	return divideAll(a, g, m), divideAll(b, g, m), g, m
}

// reduce returns a = q*b + r by long division, if that makes the dividend simpler: for a b of one
// term if any term of a yields a quotient, otherwise if r has fewer terms than a. The coefficients
// of terms of r that b's leading product divides are in [0, leading coefficient), so a second
// reduction is an identity.
func reduce(a, b Expr) (q, r Expr, ok bool) {
	q, r, ok = longDivision(a, b)
	if !ok || q.IsConst(0) {
		return q, r, false
	}
	return q, r, len(b.p.terms) == 1 || r.IsConst(0) || r.termCount() < a.termCount()
}

// longDivision returns a = q*b + r such that no term of r yields a quotient by the leading term
// of b, whose coefficient is positive. It gives up, not ok, where numbers or sizes leave
// their limits.
func longDivision(a, b Expr) (q, r Expr, ok bool) {
	var buf [1]term
	divisor, lead := b.p.terms, b.p.terms[0]
	var quo, rem []term
	budget := maxProducts
	for rest := a.terms(&buf); len(rest) > 0; {
		t := rest[0]
		c, _ := floorDivInt(t.coef, lead.coef)
		m, divides := divMonos(t.mono, lead.mono)
		if c == 0 || !divides {
			rem, rest = append(rem, t), rest[1:]
			continue
		}
		quo = append(quo, term{c, m})
		if left := t.coef - c*lead.coef; left != 0 {
			rem = append(rem, term{left, t.mono})
		}
		if rest = rest[1:]; len(divisor) == 1 {
			continue
		}
		if budget -= len(rest) + len(divisor); budget < 0 || c == minInt64 {
			return q, r, false
		}
		tail := fromTerms(divisor[1:]).Mul(single(-c, m))
		next := fromTerms(rest).Add(tail)
		if !tail.IsKnown() || !next.IsKnown() {
			return q, r, false
		}
		rest = next.terms(new([1]term))
	}
	q, r = fromTerms(quo), fromTerms(rem)
	return q, r, q.IsKnown() && r.IsKnown()
}

// ExactDiv returns the polynomial a/b, and whether there is one: then it times b is a. So
// batch*seq*1024 / (seq*16) is 64*batch. Atoms count as indivisible (Max(2*a, 2*b) / 2 has no
// quotient), and dividing a polynomial of thousands of terms by another of several may be given up.
func (a Expr) ExactDiv(b Expr) (Expr, bool) {
	a, b, done := divisor(a, b)
	if done {
		return a, a.IsConst(0)
	}
	var q, r Expr
	if k, ok := b.Const(); ok {
		q, r = splitBy(a, k)
	} else if q, r, ok = longDivision(a, b); !ok {
		return Expr{}, false
	}
	if !r.IsConst(0) {
		return Expr{}, false
	}
	return q, true
}
