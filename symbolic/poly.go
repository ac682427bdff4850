package symbolic

import "slices"

// term is a coefficient, never 0 in a polynomial, times a product.
type term struct {
	coef int64
	mono *mono
}

// poly is a sum of terms in descending order of their products (see compareMonos), so a
// constant term is last. It holds at least one term that is not constant, or a special state.
type poly struct {
	terms []term
	size  int32 // terms and factors, inside atoms too
	depth int16 // how deep atoms nest: 0 when all are symbols
	state state
	one   [1]term // storage of a single term
}

// terms returns the terms of a known expression. The constant's term needs a place to live.
func (a Expr) terms(buf *[1]term) []term {
	switch {
	case a.p != nil:
		return a.p.terms
	case a.c == 0:
		return nil
	}
	buf[0] = term{a.c, unit}
	return buf[:]
}

// single returns the expression of one term.
func single(coef int64, m *mono) Expr {
	switch {
	case coef == 0:
		return Expr{}
	case len(m.factors) == 0:
		return Const(coef)
	}
	p := &poly{one: [1]term{{coef, m}}, size: 1 + m.size, depth: m.depth}
	p.terms = p.one[:]
	return Expr{p: p}
}

// fromTerms returns the sum of terms that are sorted, distinct and have no zero coefficient. It
// keeps the slice.
func fromTerms(terms []term) Expr {
	switch {
	case len(terms) == 0:
		return Expr{}
	case len(terms) == 1:
		return single(terms[0].coef, terms[0].mono)
	case len(terms) > MaxTerms:
		return without(stateTooLarge)
	}
	p := &poly{terms: terms}
	for _, t := range terms {
		p.size += 1 + t.mono.size // at most MaxTerms times MaxSize: fits
		p.depth = max(p.depth, t.mono.depth)
	}
	if p.size > MaxSize {
		return without(stateTooLarge)
	}
	return Expr{p: p}
}

// sumTerms returns the sum of terms in any order, which it reorders in place. The sum of
// equal products is exact: it overflows only where the total does.
func sumTerms(terms []term) Expr {
	slices.SortFunc(terms, func(a, b term) int { return compareMonos(a.mono, b.mono) })
	out := terms[:0]
	for i := 0; i < len(terms); {
		m := terms[i].mono
		var sum wide
		for ; i < len(terms) && compareMonos(terms[i].mono, m) == 0; i++ {
			sum = sum.add(terms[i].coef)
		}
		c, ok := sum.int64()
		if !ok {
			return without(stateOverflow)
		}
		if c != 0 {
			out = append(out, term{c, m})
		}
	}
	if len(out) < cap(out)/2 {
		out = slices.Clone(out) // most merged: do not keep the rest
	}
	return fromTerms(out)
}

// addTerms returns x plus y, each sorted.
func addTerms(x, y []term) Expr {
	out := make([]term, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		order := compareMonos(x[0].mono, y[0].mono)
		switch {
		case order < 0:
			out, x = append(out, x[0]), x[1:]
		case order > 0:
			out, y = append(out, y[0]), y[1:]
		default:
			c, ok := addInt(x[0].coef, y[0].coef)
			if !ok {
				return without(stateOverflow)
			}
			if c != 0 {
				out = append(out, term{c, x[0].mono})
			}
			x, y = x[1:], y[1:]
		}
	}
	return fromTerms(append(append(out, x...), y...))
}

// scaleTerms returns c times m times the sum of terms; order is kept, because products are
// compared lexicographically and a common factor does not change that.
func scaleTerms(terms []term, c int64, m *mono) Expr {
	if len(terms) == 1 {
		coef, ok := mulInt(terms[0].coef, c)
		if !ok {
			return without(stateOverflow)
		}
		product, ok := mulMonos(terms[0].mono, m)
		if !ok {
			return without(stateTooLarge)
		}
		return single(coef, product)
	}
	out := make([]term, len(terms))
	for i, t := range terms {
		coef, ok := mulInt(t.coef, c)
		if !ok {
			return without(stateOverflow)
		}
		product, ok := mulMonos(t.mono, m)
		if !ok {
			return without(stateTooLarge)
		}
		out[i] = term{coef, product}
	}
	return fromTerms(out)
}

// mulTerms returns x times y.
func mulTerms(x, y []term) Expr {
	if len(x)*len(y) > maxProducts {
		return without(stateTooLarge)
	}
	out := make([]term, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			coef, ok := mulInt(a.coef, b.coef)
			if !ok {
				return without(stateOverflow)
			}
			m, ok := mulMonos(a.mono, b.mono)
			if !ok {
				return without(stateTooLarge)
			}
			out = append(out, term{coef, m})
		}
	}
	return sumTerms(out)
}

// compareExprs orders expressions totally, by state, then term by term.
func compareExprs(a, b Expr) int {
	if a.p == b.p {
		return compareInts(a.c, b.c)
	}
	if s, t := a.state(), b.state(); s != t {
		return compareInts(int64(s), int64(t))
	}
	var bufA, bufB [1]term
	return slices.CompareFunc(a.terms(&bufA), b.terms(&bufB), func(x, y term) int {
		if order := compareMonos(x.mono, y.mono); order != 0 {
			return order
		}
		return compareInts(x.coef, y.coef)
	})
}
