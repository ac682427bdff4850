package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// Expressions of dims may grow with every node: sums by concatenation, products of sums by
// multiplication, quotients of quotients by strides. Each alone is kept small (symbolic.MaxTerms),
// but a graph may have one for every value, and each size costs a walk over all of its terms. So
// the terms of a model's large expressions are bounded in sum; dims beyond the bound are unknown,
// like those that package symbolic refuses.
const (
	// largeExpr is the least number of terms and factors of an expression that counts as large.
	// Those of networks have a handful.
	largeExpr = 64
	// mostTerms bounds the terms of all large expressions of a model.
	mostTerms = 1 << 22
)

// afford charges the large expressions of a shape, and of the product of its dims, to the model's
// allowance, and makes those dims unknown that exceed it.
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
