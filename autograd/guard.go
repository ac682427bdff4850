package autograd

import (
	"slices"

	"memopt/graph"
)

// hold is a factor of a state that is 1 where a guard lets nothing change.
type hold struct {
	factor float64
	dtype  graph.DType
	value  Value
}

// guards reports whether a guard decides about the update. It does so by the numbers that an update
// is made of: where a gradient is not finite, all gradients and the learning rate become 0, and the
// factors of the states 1. Each new value is then the old one (0 for -0), and can still be written in
// its place, which a choice between two tensors cannot.
func (u *updater) guards() bool { return u.Guard && u.finite != None }

// setHolds makes the factors of the states, which all parameters share.
func (u *updater) setHolds() {
	factors := []float64{u.Momentum}
	if u.Kind != "sgd" {
		factors = []float64{u.Beta1, u.Beta2}
	}
	for _, grad := range u.grads {
		for _, f := range factors {
			if d := u.DType(grad); f != 0 && u.held(f, d) == None {
				u.holds = append(u.holds, hold{f, d, u.Where(u.finite, u.Scalar(f, grad), u.Scalar(1, grad))})
			}
		}
	}
}

// held returns a factor in a type, None before there is one.
func (u *updater) held(factor float64, d graph.DType) Value {
	for _, h := range u.holds {
		if h.factor == factor && h.dtype == d {
			return h.value
		}
	}
	return None
}

// factor is what an update multiplies an old state by.
func (u *updater) factor(x float64, state Value) Value {
	if !u.guards() || x == 0 {
		return u.Scalar(x, state)
	}
	if v := u.held(x, u.DType(state)); v != None {
		return v
	}
	return u.Where(u.finite, u.Scalar(x, state), u.Scalar(1, state))
}

// guarded is a gradient, or zeros where nothing is to change.
func (u *updater) guarded(grad Value) Value {
	if !u.guards() {
		return grad
	}
	return u.Where(u.finite, grad, u.Scalar(0, grad))
}

// guardStates keeps the states that the graph had before its update, running statistics, as they were
// where nothing is to change. ONNX Runtime's kernels have written the new ones over the old by then.
func (u *updater) guardStates() {
	if !u.guards() {
		return
	}
	g := u.j.g
	for i, p := range u.before {
		in, _ := g.Lookup(p.Input)
		out, _ := g.Lookup(p.Output)
		g.Outputs = slices.DeleteFunc(g.Outputs, func(d graph.Decl) bool { return d.Value == out })
		g.Values[out].Output = false
		u.before[i].Output = p.Input + NewSuffix
		u.result(u.before[i].Output, u.Where(u.finite, out, in))
	}
}
