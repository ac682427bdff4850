package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// Expressions of dims may grow with every node: sums by concatenation, products of sums by
// multiplication, quotients of quotients by strides. Each alone is kept small (symbolic.MaxTerms),
// but a graph may have one for every value, and whoever asks for a size looks at all of it. So a
// model may have so many terms in all, those of large expressions counted; what comes after that is
// unknown, as what package symbolic refuses.
const (
	// largeExpr is the number of terms and factors from which on an expression counts. Those of
	// networks have a handful.
	largeExpr = 64
	// mostTerms is what all large expressions of a model may have.
	mostTerms = 1 << 22
)

// afford takes the large expressions of a shape, and of the product of its dims, from what the
// model may have, and makes those dims unknown that there is no room for.
func (inf *inference) afford(s graph.Shape) graph.Shape {
	size, product := 0, 1
	for _, d := range s.Dims {
		size += d.Size()
		product = min(product*d.Terms(), mostTerms)
	}
	if inf.charge(size + product) {
		return s
	}
	for i, d := range s.Dims {
		if d.Terms() > 1 || d.Size() > largeExpr/2 {
			s = with(s, i, symbolic.Unknown())
		}
	}
	return s
}

// affordAll reports whether there is room for the contents of a tensor.
func (inf *inference) affordAll(elems []symbolic.Expr) bool {
	size := 0
	for _, e := range elems {
		if n := e.Size(); n > largeExpr/2 {
			size += n
		}
	}
	return inf.charge(size)
}

// charge counts a number of terms, if they are large enough, and reports whether there was room for
// them.
func (inf *inference) charge(terms int) bool {
	if terms <= largeExpr {
		return true
	}
	if inf.terms == nil {
		inf.terms = new(int)
	}
	*inf.terms += terms
	return *inf.terms <= mostTerms
}
