package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
)

// lpNorm is the norm (Σ|x|^p)^(1/p).
type lpNorm[T convFloat] struct{ p float64 }

// newLpNorm reads the attribute p.
func newLpNorm[T convFloat](p *executor.Prep) (lpNorm[T], error) {
	order, err := operand.LpOrder(p)
	return lpNorm[T]{order}, err
}

// add adds |x[i*s]|^p to y[i].
func (n lpNorm[T]) add(y, x []T, s int) {
	at := 0
	switch n.p {
	case 1:
		for i := range y {
			y[i] += T(math.Abs(float64(x[at])))
			at += s
		}
	case 2:
		for i := range y {
			q := x[at] * x[at]
			y[i] += q
			at += s
		}
	default:
		for i := range y {
			y[i] += T(math.Pow(math.Abs(float64(x[at])), n.p))
			at += s
		}
	}
}

// root takes the p-th roots.
func (n lpNorm[T]) root(y []T) {
	for i, v := range y {
		switch n.p {
		case 1:
		case 2:
			y[i] = T(math.Sqrt(float64(v)))
		default:
			y[i] = T(math.Pow(float64(v), 1/n.p))
		}
	}
}

// whole returns the norm of all of x, in float64.
func (n lpNorm[T]) whole(x []T) T {
	s := 0.0
	for _, v := range x {
		a := math.Abs(float64(v))
		switch n.p {
		case 1:
			s += a
		case 2:
			s += a * a
		default:
			s += math.Pow(a, n.p)
		}
	}
	switch n.p {
	case 1:
		return T(s)
	case 2:
		return T(math.Sqrt(s))
	}
	return T(math.Pow(s, 1/n.p))
}
