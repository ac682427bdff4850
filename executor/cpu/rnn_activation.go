package cpu

import (
	"math"
	"slices"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/simd"
)

// rnnActivation is an activation function with its parameters.
type rnnActivation struct {
	f           *rnnFunction
	alpha, beta float64
}

// rnnFunction is a row of the table of activation functions.
type rnnFunction struct {
	name        string
	params      int     // how many of alpha and beta it has
	alpha, beta float64 // defaults for nodes without them
	f           func(x, alpha, beta float64) float64
	simd        func(dst, a []float32) // nil without a vector loop
}

// rnnFunctions lists the functions of the operators' documents. Defaults are those of the
// operators of the same names, and 1 for Affine's and ScaledTanh's factors.
var rnnFunctions = []rnnFunction{
	{name: "Relu", f: func(x, _, _ float64) float64 { return max(x, 0) }, simd: simd.Relu},
	{name: "Tanh", f: func(x, _, _ float64) float64 { return math.Tanh(x) }, simd: simd.Tanh},
	{name: "Sigmoid", f: func(x, _, _ float64) float64 { return 1 / (1 + math.Exp(-x)) }, simd: simd.Sigmoid},
	{name: "Affine", params: 2, alpha: 1, f: func(x, a, b float64) float64 { return a*x + b }},
	{name: "LeakyRelu", params: 1, alpha: 0.01, f: func(x, a, _ float64) float64 {
		if x < 0 {
			return a * x
		}
		return x
	}},
	{name: "ThresholdedRelu", params: 1, alpha: 1, f: func(x, a, _ float64) float64 {
		if x < a {
			return 0
		}
		return x
	}},
	{name: "ScaledTanh", params: 2, alpha: 1, beta: 1, f: func(x, a, b float64) float64 { return a * math.Tanh(b*x) }},
	{name: "HardSigmoid", params: 2, alpha: 0.2, beta: 0.5, f: func(x, a, b float64) float64 {
		return min(max(a*x+b, 0), 1)
	}},
	{name: "Elu", params: 1, alpha: 1, f: func(x, a, _ float64) float64 {
		if x < 0 {
			return a * math.Expm1(x)
		}
		return x
	}},
	{name: "Softsign", f: func(x, _, _ float64) float64 { return x / (1 + math.Abs(x)) }},
	{name: "Softplus", f: func(x, _, _ float64) float64 {
		// ln(1+e^x) without overflow.
		return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	}},
}

// rnnActivations reads the attributes activations, activation_alpha and activation_beta. The
// functions that have a parameter take the values of a list in their order.
func rnnActivations(p *executor.Prep, directions []rnnDirection) error {
	names := map[graph.Kind][]string{
		op.RNN: {"Tanh"}, op.GRU: {"Sigmoid", "Tanh"}, op.LSTM: {"Sigmoid", "Tanh", "Tanh"},
	}[p.Node.Kind]
	each := len(names)
	given := p.Node.StrList("activations", nil)
	if len(given) > 0 && len(given) != each*len(directions) {
		return p.Errorf("attribute activations is %q, wanted %d names", given, each*len(directions))
	}
	alphas, betas := p.Node.FloatList("activation_alpha", nil), p.Node.FloatList("activation_beta", nil)
	for i := range each * len(directions) {
		name := names[i%each]
		if len(given) > 0 {
			name = given[i]
		}
		a := &directions[i/each].act[i%each]
		for j := range rnnFunctions {
			if strings.EqualFold(rnnFunctions[j].name, name) {
				a.f = &rnnFunctions[j]
			}
		}
		if a.f == nil {
			return p.Errorf("attribute activations: there is no function %q", name)
		}
		a.alpha, a.beta = a.f.alpha, a.f.beta
		if a.f.params > 0 && len(alphas) > 0 {
			a.alpha, alphas = float64(alphas[0]), alphas[1:]
		}
		if a.f.params > 1 && len(betas) > 0 {
			a.beta, betas = float64(betas[0]), betas[1:]
		}
	}
	return nil
}

// RecurrentActivation is an activation function of a recurrent operator, by its number among Relu,
// Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign and
// Softplus, with its parameters.
type RecurrentActivation struct {
	Function    int
	Alpha, Beta float64
}

// RecurrentActivations reads the activation functions of RNN, GRU or LSTM: those of each direction.
func RecurrentActivations(p *executor.Prep, directions int) ([][3]RecurrentActivation, error) {
	read := make([]rnnDirection, directions)
	if err := rnnActivations(p, read); err != nil {
		return nil, err
	}
	out := make([][3]RecurrentActivation, directions)
	for i, d := range read {
		for j, a := range d.act {
			at := slices.IndexFunc(rnnFunctions, func(f rnnFunction) bool { return a.f != nil && f.name == a.f.name })
			out[i][j] = RecurrentActivation{Function: at, Alpha: a.alpha, Beta: a.beta}
		}
	}
	return out, nil
}

// activate clips x and applies activation i of the current direction.
func (k *rnnKernel[T]) activate(i int, x []T) {
	if c := k.clip; c != 0 {
		for n, v := range x {
			x[n] = min(max(v, -c), c)
		}
	}
	a := &k.now.act[i]
	var e T
	if _, ok := any(e).(float32); ok && a.f.simd != nil {
		x := executor.Cast[float32](executor.Memory(x))
		a.f.simd(x, x)
		return
	}
	for n, v := range x {
		x[n] = T(a.f.f(float64(v), a.alpha, a.beta))
	}
}
