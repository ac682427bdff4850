package cpu

import (
	"math"
	"unsafe"

	"memopt/executor"
	"memopt/graph/op"
)

// lightFunc returns the loop of a function of one number that takes few instructions, or nil for
// other functions.
func lightFunc[T elemFloat](p *executor.Prep) func(dst, a []T) {
	n := p.Node
	switch n.Kind {
	case op.Ceil:
		return ceilLoop[T]
	case op.Floor:
		return floorLoop[T]
	case op.Round:
		return roundLoop[T]
	case op.Reciprocal:
		return reciprocalLoop[T]
	case op.Softsign:
		return softsignLoop[T]
	case op.HardSwish: // x * max(0, min(1, x/6+1/2))
		return func(dst, a []T) { hardSwishLoop(dst, a) }
	case op.HardSigmoid:
		alpha, beta := T(n.Float("alpha", 0.2)), T(n.Float("beta", 0.5))
		return func(dst, a []T) { hardSigmoidLoop(dst, a, alpha, beta) }
	case op.LeakyRelu:
		alpha := T(n.Float("alpha", 0.01))
		return func(dst, a []T) { leakyLoop(dst, a, alpha) }
	case op.ThresholdedRelu:
		alpha := T(n.Float("alpha", 1))
		return func(dst, a []T) { thresholdLoop(dst, a, alpha) }
	}
	return nil
}

func ceilLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = T(math.Ceil(float64(x)))
	}
}

func floorLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = T(math.Floor(float64(x)))
	}
}

// roundLoop rounds to integers, ties to even.
func roundLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = T(math.RoundToEven(float64(x)))
	}
}

func reciprocalLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = 1 / x
	}
}

// softsignLoop: x / (1+|x|).
func softsignLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = x / (1 + T(math.Abs(float64(x))))
	}
}

// hardSwishLoop: x * max(0, min(1, x/6+1/2)).
func hardSwishLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		h := x / 6
		dst[i] = x * max(0, min(1, h+0.5))
	}
}

// hardSigmoidLoop: max(0, min(1, alpha*x+beta)).
func hardSigmoidLoop[T elemFloat](dst, a []T, alpha, beta T) {
	a = a[:len(dst)]
	for i, x := range a {
		h := alpha * x
		dst[i] = max(0, min(1, h+beta))
	}
}

// leakyLoop: alpha*x for x below 0, else x.
func leakyLoop[T elemFloat](dst, a []T, alpha T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = elemPick(x < 0, x*alpha, x)
	}
}

// thresholdLoop: x above alpha, 0 elsewhere; NaN is not above.
func thresholdLoop[T elemFloat](dst, a []T, alpha T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = elemPick(x > alpha, x, 0)
	}
}

// elemPick returns x where the condition holds, else y. It selects bits, because the compiler uses
// a conditional move for them; for floating-point numbers it would branch, which is slow on random
// data.
func elemPick[T elemFloat](cond bool, x, y T) T {
	if unsafe.Sizeof(x) == 4 {
		b := math.Float32bits(float32(y))
		if bx := math.Float32bits(float32(x)); cond {
			b = bx
		}
		return T(math.Float32frombits(b))
	}
	b := math.Float64bits(float64(y))
	if bx := math.Float64bits(float64(x)); cond {
		b = bx
	}
	return T(math.Float64frombits(b))
}
