package symbolic

// factor is a positive power of an atom.
type factor struct {
	atom *atom
	pow  int32
}

// mono is a product of powers of distinct atoms, in ascending order of the atoms.
type mono struct {
	factors []factor
	degree  int32
	size    int32
	depth   int16
}

// unit is the empty product, 1.
var unit = &mono{}

// alone returns the atom that the product consists of, or nil.
func (m *mono) alone() *atom {
	if len(m.factors) != 1 || m.factors[0].pow != 1 {
		return nil
	}
	return m.factors[0].atom
}

// compareMonos orders products lexicographically by their exponents, the larger exponent of the
// earlier atom first: a**2, a*b, a, b, 1. It is the printing order of terms.
func compareMonos(a, b *mono) int {
	if a == b {
		return 0
	}
	for i := 0; ; i++ {
		switch {
		case i == len(a.factors) && i == len(b.factors):
			return 0
		case i == len(a.factors):
			return 1
		case i == len(b.factors):
			return -1
		}
		x, y := a.factors[i], b.factors[i]
		if order := compareAtoms(x.atom, y.atom); order != 0 {
			return order // the product with the earlier atom has an exponent where the other has 0
		}
		if x.pow != y.pow {
			return int(y.pow) - int(x.pow)
		}
	}
}

// mulMonos returns a times b, and whether its degree and size are within the limits.
func mulMonos(a, b *mono) (*mono, bool) {
	switch {
	case len(a.factors) == 0:
		return b, true
	case len(b.factors) == 0:
		return a, true
	case a.degree+b.degree > MaxDegree:
		return nil, false
	}
	x, y := a.factors, b.factors
	out := make([]factor, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		order := compareAtoms(x[0].atom, y[0].atom)
		switch {
		case order < 0:
			out, x = append(out, x[0]), x[1:]
		case order > 0:
			out, y = append(out, y[0]), y[1:]
		default:
			out = append(out, factor{x[0].atom, x[0].pow + y[0].pow})
			x, y = x[1:], y[1:]
		}
	}
	m := newMono(append(append(out, x...), y...))
	return m, m.size <= MaxSize
}

// divMonos returns a/b, and whether b divides a.
func divMonos(a, b *mono) (*mono, bool) {
	if len(b.factors) == 0 {
		return a, true
	}
	out := make([]factor, 0, len(a.factors))
	y := b.factors
	for _, f := range a.factors {
		if len(y) > 0 && compareAtoms(f.atom, y[0].atom) == 0 {
			f.pow -= y[0].pow
			y = y[1:]
			if f.pow < 0 {
				return nil, false
			}
		}
		if f.pow > 0 {
			out = append(out, f)
		}
	}
	return newMono(out), len(y) == 0
}

// commonMono returns the largest product that divides a and b.
func commonMono(a, b *mono) *mono {
	var out []factor
	x, y := a.factors, b.factors
	for len(x) > 0 && len(y) > 0 {
		order := compareAtoms(x[0].atom, y[0].atom)
		switch {
		case order < 0:
			x = x[1:]
		case order > 0:
			y = y[1:]
		default:
			out = append(out, factor{x[0].atom, min(x[0].pow, y[0].pow)})
			x, y = x[1:], y[1:]
		}
	}
	return newMono(out)
}

// newMono returns the product of factors that are sorted and distinct. It keeps the slice.
func newMono(factors []factor) *mono {
	if len(factors) == 0 {
		return unit
	}
	if len(factors) == 1 && factors[0].pow == 1 {
		return &factors[0].atom.mono
	}
	m := &mono{factors: factors}
	for _, f := range factors {
		m.degree += f.atom.degree * f.pow
		m.size += f.atom.size
		m.depth = max(m.depth, f.atom.depth)
	}
	return m
}
