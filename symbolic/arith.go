package symbolic

// Add returns a + b.
func (a Expr) Add(b Expr) Expr {
	if a.p == nil && b.p == nil {
		return constant(addInt(a.c, b.c))
	}
	switch s := max(a.state(), b.state()); {
	case s != stateKnown:
		return without(s)
	case a.IsConst(0):
		return b
	case b.IsConst(0):
		return a
	}
	var bufA, bufB [1]term
	return addTerms(a.terms(&bufA), b.terms(&bufB))
}

// Sub returns a - b.
func (a Expr) Sub(b Expr) Expr {
	if a.p == nil && b.p == nil && b.c >= 0 { // a negative c may have no opposite
		return constant(addInt(a.c, -b.c))
	}
	if b.p == nil && b.c == minInt64 {
		// a - minInt64 = (a + maxInt64) + 1, where -minInt64 itself does not fit.
		return a.Add(Const(maxInt64)).Add(Const(1))
	}
	return a.Add(b.Neg())
}

// Neg returns -a.
func (a Expr) Neg() Expr {
	if a.p == nil {
		return constant(negInt(a.c))
	}
	if a.p.state != stateKnown {
		return a
	}
	return scaleTerms(a.p.terms, -1, unit)
}

// Mul returns a * b. Unknown times 0 is unknown.
func (a Expr) Mul(b Expr) Expr {
	if a.p == nil && b.p == nil {
		return constant(mulInt(a.c, b.c))
	}
	switch s := max(a.state(), b.state()); {
	case s != stateKnown:
		return without(s)
	case a.IsConst(0) || b.IsConst(0):
		return Expr{}
	case a.IsConst(1):
		return b
	case b.IsConst(1):
		return a
	}
	var bufA, bufB [1]term
	x, y := a.terms(&bufA), b.terms(&bufB)
	switch {
	case len(y) == 1:
		return scaleTerms(x, y[0].coef, y[0].mono)
	case len(x) == 1:
		return scaleTerms(y, x[0].coef, x[0].mono)
	}
	return mulTerms(x, y)
}

// Pow returns a to the power n. Anything known to the power 0 is 1.
func (a Expr) Pow(n uint) Expr {
	switch {
	case !a.IsKnown():
		return a
	case n == 0:
		return Const(1)
	case a.p == nil:
		return constant(powInt(a.c, n))
	case n > MaxDegree:
		return without(stateTooLarge)
	}
	result := Const(1)
	for {
		if n&1 == 1 {
			result = result.Mul(a)
		}
		if n >>= 1; n == 0 || !result.IsKnown() {
			return result
		}
		a = a.Mul(a)
	}
}

// Sum returns the sum of all terms; it is faster than adding a long list one by one.
func Sum(list ...Expr) Expr {
	s, n := stateKnown, 0
	for _, e := range list {
		s = max(s, e.state())
		n += e.termCount()
	}
	if s != stateKnown {
		return without(s)
	}
	all := make([]term, 0, n)
	var buf [1]term
	for _, e := range list {
		all = append(all, e.terms(&buf)...)
	}
	return sumTerms(all)
}

func (a Expr) termCount() int {
	if a.p == nil {
		return 1
	}
	return len(a.p.terms)
}

// Majorant returns an expression that is at least a and at least b wherever no product of symbols and
// operations in them is negative: each product with the larger of its coefficients; a missing one
// counts as 0. The majorant of 2*a + b and 3*a, for example, is 3*a + b.
func Majorant(a, b Expr) Expr {
	if !a.IsKnown() || !b.IsKnown() {
		return a.Add(b)
	}
	var bufA, bufB [1]term
	x, y := a.terms(&bufA), b.terms(&bufB)
	var out []term
	add := func(coef int64, m *mono) {
		if coef > 0 {
			out = append(out, term{coef, m})
		}
	}
	for len(x) > 0 && len(y) > 0 {
		switch order := compareMonos(x[0].mono, y[0].mono); {
		case order < 0:
			add(x[0].coef, x[0].mono)
			x = x[1:]
		case order > 0:
			add(y[0].coef, y[0].mono)
			y = y[1:]
		default:
			if c := max(x[0].coef, y[0].coef); c != 0 {
				out = append(out, term{c, x[0].mono})
			}
			x, y = x[1:], y[1:]
		}
	}
	for _, rest := range [...][]term{x, y} {
		for _, t := range rest {
			add(t.coef, t.mono)
		}
	}
	return fromTerms(out)
}
