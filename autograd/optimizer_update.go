package autograd

import "memopt/graph"

// update emits the new value of parameter number i and of its states. Decay that shrinks is p·(1 - lr·decay) in place
// of p.
func (u *updater) update(i int, param, grad Value) {
	old := u.work(param)
	decay, pace := u.members[i].decay, u.pace(u.members[i].scale)
	if decay != 0 && !u.shrinks() {
		grad = u.Add(grad, u.Mul(old, u.Scalar(decay, old)))
	}
	if u.rule() != "adafactor" {
		grad = u.guarded(grad)
	}
	from := old
	if decay != 0 && u.shrinks() {
		from = u.Mul(old, u.scalar(u.kept(pace, decay), u.DType(grad), 1))
	}
	var updated Value
	switch u.ruleOf(i) {
	case "sgd":
		updated = u.sgd(param, from, grad, pace)
	case "lion":
		c := u.blend(param, AvgSuffix, grad, u.blendOf(i))
		updated = u.Sub(from, u.Mul(u.mathSign(c), u.scalar(pace.rate, u.DType(grad), 0)))
	case "muon":
		updated = u.muon(param, from, u.blend(param, MomentumSuffix, grad, u.blendOf(i)), pace)
	case "adafactor":
		updated = u.adafactor(param, old, from, grad, pace)
	default:
		updated = u.adam(param, from, grad, pace)
	}
	updated = u.chosen(updated, old) // in float32: Where takes no bfloat16 before operator set 16
	u.settle(i, updated)
}

// sgd: m' = momentum·m + g; p' = p - lr·m', or with Nesterov's momentum p - lr·(g + momentum·m').
func (u *updater) sgd(param, old, grad Value, pace *pace) Value {
	if u.Momentum != 0 {
		moved := u.state(param, MomentumSuffix, u.Type(param).Shape, func(m Value) Value {
			return u.Add(u.Mul(m, u.factor(u.Momentum, m)), grad)
		})
		if u.Nesterov {
			moved = u.Add(grad, u.Mul(moved, u.Scalar(u.Momentum, moved)))
		}
		grad = moved
	}
	return u.Sub(old, u.Mul(grad, u.scalar(pace.rate, u.DType(grad), 0)))
}

// adam: m' = b1·(m-g) + g; v' = b2·v + (1-b2)·g²; p' = p - lr/(1-b1^t)·m'/(√v'/√(1-b2^t) + eps).
// In these forms every product and sum can be written over one of its operands, so that an update needs no memory
// besides the gradient's.
func (u *updater) adam(param, old, grad Value, pace *pace) Value {
	d := u.DType(grad)
	avg := u.state(param, AvgSuffix, u.Type(param).Shape, func(m Value) Value {
		return u.Add(u.Mul(u.Sub(m, grad), u.factor(u.Beta1, m)), grad)
	})
	sq := u.state(param, SqAvgSuffix, u.Type(param).Shape, func(v Value) Value {
		return u.Add(u.Mul(v, u.factor(u.Beta2, v)), u.Mul(u.Mul(grad, grad), u.Scalar(1-u.Beta2, v)))
	})
	root := u.Div(u.Op("Sqrt", nil, sq), u.Cast(u.correction, d))
	return u.Sub(old, u.Mul(u.Div(avg, u.Add(root, u.Scalar(u.Eps, root))), u.scalar(pace.stepSize, d, 0)))
}

// blend is a mean of gradients in a state, and the mean that an update is made of: both of the old state and the
// gradient.
type blend struct {
	old  float64 // the share of the old state in the mean of the update
	kept float64 // in the new state
}

// blendOf is the blend of a parameter. lion: c = b1·m + (1-b1)·g; m' = b2·m + (1-b2)·g. muon, with momentum µ:
// m' = µ·m + (1-µ)·g and, after Nesterov, µ·m' + (1-µ)·g = µ²·m + (1-µ²)·g.
func (u *updater) blendOf(i int) blend {
	if u.ruleOf(i) == "muon" {
		return blend{u.Momentum * u.Momentum, u.Momentum}
	}
	return blend{u.Beta1, u.Beta2}
}

// blend emits a blend of a state and a gradient. With e = old·(m-g) it is c = g + e and m' = c + (kept/old-1)·e, whose
// products and sums can be written over m and g, as in adam.
func (u *updater) blend(param Value, suffix string, grad Value, b blend) (c Value) {
	u.state(param, suffix, u.Type(param).Shape, func(m Value) Value {
		e := u.Mul(u.Sub(m, grad), u.factor(b.old, m))
		c = u.Add(grad, e)
		return u.Add(u.Mul(e, u.blendFactor(b, m)), c)
	})
	return c
}

// blendFactor is the factor of e in the new state of a blend; 0 if the update is to be skipped.
func (u *updater) blendFactor(b blend, like Value) Value {
	return u.scalar(u.Scalar(b.kept/b.old-1, like), u.DType(like), 0)
}

// state adds a state of a parameter: an input of a shape, and the result of f on it as an output. It returns
// the latter as the update uses it.
func (u *updater) state(param Value, suffix string, shape graph.Shape, f func(Value) Value) Value {
	t := graph.Tensor(u.DType(param), shape)
	if !u.Stochastic {
		t.DType = updateType(t.DType)
	}
	name := u.j.g.ValueName(param) + suffix
	old := u.work(u.newInput(name, t))
	updated := f(old)
	u.next(name, u.rounded(u.chosen(updated, old), t.DType, name))
	return updated
}
