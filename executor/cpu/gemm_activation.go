package cpu

import (
	"math"
	"unsafe"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/internal/simd"
)

// gemmActivation is the function that a fused operator applies to its result. It computes in the
// result's wider type: rounding to 16 bits comes after it.
type gemmActivation struct {
	name        string
	alpha, beta float64
}

// gemmActivations are the activations and the values of activation_alpha and activation_beta that a
// node may leave out.
var gemmActivations = map[string][2]float32{
	"Relu": {}, "Tanh": {}, "Sigmoid": {}, "Softplus": {}, "Softsign": {},
	"LeakyRelu": {0.01}, "Elu": {1}, "ThresholdedRelu": {1}, "HardSigmoid": {0.2, 0.5},
}

// GemmActivation reads the attributes activation, activation_alpha and activation_beta of a fused
// product; the name is "" if there is no activation.
func GemmActivation(p *executor.Prep) (name string, alpha, beta float32, err error) {
	if name = p.Node.Str("activation", ""); name == "" {
		return "", 0, 0, nil
	}
	def, ok := gemmActivations[name]
	if !ok {
		return "", 0, 0, p.Unsupported("no kernel for activation %q", name)
	}
	return name, p.Node.Float("activation_alpha", def[0]), p.Node.Float("activation_beta", def[1]), nil
}

// newGemmActivation reads the attributes; it returns nil if there is no activation.
func newGemmActivation(p *executor.Prep) (*gemmActivation, error) {
	name, alpha, beta, err := GemmActivation(p)
	if err != nil || name == "" {
		return nil, err
	}
	return &gemmActivation{name: name, alpha: float64(alpha), beta: float64(beta)}, nil
}

// gemmActivate applies an activation to elements.
func gemmActivate[T blas.Float](f *gemmActivation, x []T) {
	if unsafe.Sizeof(x[0]) == 4 {
		s := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
		switch f.name {
		case "Relu":
			simd.Relu(s, s)
			return
		case "Tanh":
			simd.Tanh(s, s)
			return
		case "Sigmoid":
			simd.Sigmoid(s, s)
			return
		}
	}
	for i, v := range x {
		x[i] = T(f.apply(float64(v)))
	}
}

// apply computes the activation of one element.
func (f *gemmActivation) apply(x float64) float64 {
	switch f.name {
	case "Relu":
		return max(x, 0)
	case "Tanh":
		return math.Tanh(x)
	case "Sigmoid":
		return 1 / (1 + math.Exp(-x))
	case "Softplus":
		return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	case "Softsign":
		return x / (1 + math.Abs(x))
	case "HardSigmoid":
		return max(0, min(1, f.alpha*x+f.beta))
	case "LeakyRelu":
		if x < 0 {
			return f.alpha * x
		}
	case "Elu":
		if x < 0 {
			return f.alpha * math.Expm1(x)
		}
	case "ThresholdedRelu":
		if x <= f.alpha {
			return 0
		}
	}
	return x
}
