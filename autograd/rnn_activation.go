package autograd

import (
	"strings"
)

// rnnAct is an activation function of a recurrence with its parameters.
type rnnAct struct {
	*rnnFunction
	alpha, beta float64
}

// rnnFunction is a row of the table of activation functions.
type rnnFunction struct {
	name        string
	params      int     // how many of alpha and beta it has
	alpha, beta float64 // the defaults
	attrs       bool    // the parameters are attributes of the operator of this name
	// slope is the derivative, from the function's value y. One that reads the argument x is
	// marked.
	slope    func(e *emitter, a rnnAct, x, y Value) Value
	needsArg bool
}

var rnnFunctions = []rnnFunction{
	{name: "Relu", slope: func(e *emitter, _ rnnAct, _, y Value) Value { return e.positive(y, 1, 0) }},
	{name: "Tanh", slope: func(e *emitter, _ rnnAct, _, y Value) Value { return e.Sub(e.Scalar(1, y), e.Mul(y, y)) }},
	{name: "Sigmoid", slope: func(e *emitter, _ rnnAct, _, y Value) Value {
		return e.Mul(y, e.Sub(e.Scalar(1, y), y))
	}},
	{name: "Affine", params: 2, alpha: 1, slope: func(e *emitter, a rnnAct, _, y Value) Value {
		return e.ExpandLike(e.Scalar(a.alpha, y), y)
	}},
	{name: "LeakyRelu", params: 1, alpha: 0.01, attrs: true, needsArg: true,
		slope: func(e *emitter, a rnnAct, x, _ Value) Value { return e.positive(x, 1, a.alpha) }},
	{name: "ThresholdedRelu", params: 1, alpha: 1, attrs: true, needsArg: true,
		slope: func(e *emitter, a rnnAct, x, _ Value) Value {
			return e.positive(e.Sub(x, e.Scalar(a.alpha, x)), 1, 0)
		}},
	{name: "ScaledTanh", params: 2, alpha: 1, beta: 1, needsArg: true,
		slope: func(e *emitter, a rnnAct, x, _ Value) Value {
			t := e.Op("Tanh", nil, e.Mul(x, e.Scalar(a.beta, x)))
			return e.Mul(e.Scalar(a.alpha*a.beta, x), e.Sub(e.Scalar(1, x), e.Mul(t, t)))
		}},
	{name: "HardSigmoid", params: 2, alpha: 0.2, beta: 0.5, attrs: true,
		slope: func(e *emitter, a rnnAct, _, y Value) Value {
			inside := e.Op("And", nil, e.Op("Greater", nil, y, e.Scalar(0, y)), e.Op("Less", nil, y, e.Scalar(1, y)))
			return e.Where(inside, e.Scalar(a.alpha, y), e.Scalar(0, y))
		}},
	{name: "Elu", params: 1, alpha: 1, attrs: true, needsArg: true,
		slope: func(e *emitter, a rnnAct, x, y Value) Value {
			return e.Where(e.Op("Greater", nil, x, e.Scalar(0, x)), e.Scalar(1, x), e.Add(y, e.Scalar(a.alpha, y)))
		}},
	{name: "Softsign", slope: func(e *emitter, _ rnnAct, _, y Value) Value {
		d := e.Sub(e.Scalar(1, y), e.Op("Abs", nil, y))
		return e.Mul(d, d)
	}},
	{name: "Softplus", slope: func(e *emitter, _ rnnAct, _, y Value) Value {
		return e.Sub(e.Scalar(1, y), e.Op("Exp", nil, e.Neg(y)))
	}},
}

// positive is one number where v is greater than 0 and another elsewhere.
func (e *emitter) positive(v Value, yes, no float64) Value {
	return e.Where(e.Op("Greater", nil, v, e.Scalar(0, v)), e.Scalar(yes, v), e.Scalar(no, v))
}

// apply emits the function.
func (a rnnAct) apply(e *emitter, x Value) Value {
	switch a.name {
	case "Affine":
		return e.Add(e.Mul(x, e.Scalar(a.alpha, x)), e.Scalar(a.beta, x))
	case "ScaledTanh":
		return e.Mul(e.Op("Tanh", nil, e.Mul(x, e.Scalar(a.beta, x))), e.Scalar(a.alpha, x))
	}
	var attrs Attrs
	if a.attrs {
		attrs = append(attrs, A("alpha", float32(a.alpha)))
	}
	if a.attrs && a.params > 1 {
		attrs = append(attrs, A("beta", float32(a.beta)))
	}
	return e.Op(a.name, attrs, x)
}

// grad emits the derivative at x, with the value y of the function. x may be None if needsArg is
// false.
func (a rnnAct) grad(e *emitter, x, y Value) Value { return a.slope(e, a, x, y) }

// usualActs are the default functions of a direction, by the number of gates.
var usualActs = [...][]string{rnnGates: {"Tanh"}, gruGates: {"Sigmoid", "Tanh"},
	lstmGates: {"Sigmoid", "Tanh", "Tanh"}}

// rnnActs reads the attributes activations, activation_alpha and activation_beta. The functions
// that have a parameter take the values of a list in their order.
func rnnActs(c *Ctx, gates, directions int) []rnnAct {
	names := usualActs[gates]
	given := c.Node.StrList("activations", nil)
	if len(given) > 0 && len(given) != len(names)*directions {
		c.Errorf("attribute activations is %q, wanted %d names", given, len(names)*directions)
	}
	alphas, betas := c.Node.FloatList("activation_alpha", nil), c.Node.FloatList("activation_beta", nil)
	acts := make([]rnnAct, len(names)*directions)
	for i := range acts {
		name := names[i%len(names)]
		if len(given) > 0 {
			name = given[i]
		}
		f := rnnFunctionNamed(name)
		if f == nil {
			c.Unsupported("activation function %q", name)
		}
		acts[i] = rnnAct{f, f.alpha, f.beta}
		if f.params > 0 && len(alphas) > 0 {
			acts[i].alpha, alphas = float64(alphas[0]), alphas[1:]
		}
		if f.params > 1 && len(betas) > 0 {
			acts[i].beta, betas = float64(betas[0]), betas[1:]
		}
	}
	return acts
}

func rnnFunctionNamed(name string) *rnnFunction {
	for i := range rnnFunctions {
		if strings.EqualFold(rnnFunctions[i].name, name) {
			return &rnnFunctions[i]
		}
	}
	return nil
}
