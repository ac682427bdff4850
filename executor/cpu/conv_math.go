package cpu

import (
	"math"
	"runtime"
	"sync/atomic"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/internal/simd"
)

// convFloat lists the types that convolutions compute in.
type convFloat interface{ float32 | float64 }

// convMath has the inner loops for one element type.
type convMath[T convFloat] struct {
	gemm      func(transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int)
	axpy      func(y, x []T, s T)
	add, sub  func(dst, a, b []T)
	addScalar func(dst, a []T, s T)
	relu      func(dst, a []T)
	sum       func(a []T) T
}

// newConvMath returns the loops for T.
func newConvMath[T convFloat]() (m convMath[T]) {
	switch p := any(&m).(type) {
	case *convMath[float32]:
		*p = convMath[float32]{blas.Sgemm, simd.Axpy, simd.Add, simd.Sub, simd.AddScalar, simd.Relu, simd.Sum}
	case *convMath[float64]:
		*p = convMath[float64]{blas.Dgemm, convAxpy, convAdd, convSub, convAddScalar, convRelu, convSum}
	}
	return m
}

func convAxpy(y, x []float64, s float64) {
	for i := range y {
		p := x[i] * s
		y[i] += p
	}
}

func convAdd(dst, a, b []float64) {
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func convSub(dst, a, b []float64) {
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func convAddScalar(dst, a []float64, s float64) {
	for i := range dst {
		dst[i] = a[i] + s
	}
}

func convRelu(dst, a []float64) {
	for i := range dst {
		dst[i] = max(a[i], 0)
	}
}

func convSum(a []float64) float64 {
	s := 0.0
	for _, v := range a {
		s += v
	}
	return s
}

// convActivation is the activation that FusedConv applies to its result.
type convActivation struct {
	kind        convActivationKind
	alpha, beta float64
}

type convActivationKind uint8

const (
	convNoActivation convActivationKind = iota
	convReluAct
	convTanhAct
	convSigmoidAct
	convLeakyAct
	convClipAct
	convHardSigmoidAct
)

// newConvActivation reads the attributes activation and activation_params.
func newConvActivation(p *executor.Prep) (a convActivation, err error) {
	name := p.Node.Str("activation", "")
	params := p.Node.FloatList("activation_params", nil)
	kinds := []struct {
		name   string
		kind   convActivationKind
		params []float64 // defaults
	}{{"", convNoActivation, nil}, {"Relu", convReluAct, nil}, {"Tanh", convTanhAct, nil},
		{"Sigmoid", convSigmoidAct, nil},
		{"LeakyRelu", convLeakyAct, []float64{0.01}},
		{"Clip", convClipAct, []float64{-math.MaxFloat32, math.MaxFloat32}},
		{"HardSigmoid", convHardSigmoidAct, []float64{0.2, 0.5}}}
	for _, k := range kinds {
		if k.name != name {
			continue
		}
		for i, v := range params {
			if i < len(k.params) {
				k.params[i] = float64(v)
			}
		}
		a.kind = k.kind
		if len(k.params) > 0 {
			a.alpha = k.params[0]
		}
		if len(k.params) > 1 {
			a.beta = k.params[1]
		}
		return a, nil
	}
	return a, p.Errorf("attribute activation is %q, wanted Relu, Tanh, Sigmoid, LeakyRelu, Clip or HardSigmoid", name)
}

// convActivate applies an activation in place.
func convActivate[T convFloat](relu func(dst, a []T), a *convActivation, y []T) {
	switch a.kind {
	case convReluAct:
		relu(y, y)
	case convTanhAct:
		for i, v := range y {
			y[i] = T(math.Tanh(float64(v)))
		}
	case convSigmoidAct:
		for i, v := range y {
			y[i] = T(1 / (1 + math.Exp(-float64(v))))
		}
	case convLeakyAct:
		for i, v := range y {
			if v < 0 {
				y[i] = v * T(a.alpha)
			}
		}
	case convClipAct:
		for i, v := range y {
			y[i] = min(max(v, T(a.alpha)), T(a.beta))
		}
	case convHardSigmoidAct:
		for i, v := range y {
			y[i] = min(max(v*T(a.alpha)+T(a.beta), 0), 1)
		}
	}
}

// slotList hands pieces of workspace to the threads of a loop. It does not block: there is
// a slot for every thread.
type slotList struct{ taken []atomic.Bool }

// reset makes the slots 0..n-1 free.
func (s *slotList) reset(n int) {
	if len(s.taken) != n {
		s.taken = make([]atomic.Bool, n)
	}
	for i := range s.taken {
		s.taken[i].Store(false)
	}
}

// take returns a free slot.
func (s *slotList) take() int {
	for {
		for i := range s.taken {
			if s.taken[i].CompareAndSwap(false, true) {
				return i
			}
		}
		runtime.Gosched()
	}
}

// give returns a slot.
func (s *slotList) give(i int) { s.taken[i].Store(false) }
