package autograd

// update emits the new value of parameter number i and of its states. Decay that shrinks is p·(1 - lr·decay) in place
// of p.
func (u *updater) update(i int, param, grad Value) {
	old := u.work(param)
	decay, pace := u.members[i].decay, u.pace(u.members[i].scale)
	if decay != 0 && !u.shrinks() {
		grad = u.Add(grad, u.Mul(old, u.Scalar(decay, old)))
	}
	grad = u.guarded(grad)
	from := old
	if decay != 0 && u.shrinks() {
		from = u.Mul(old, u.scalar(u.kept(pace, decay), u.DType(grad), 1))
	}
	var updated Value
	switch u.rule() {
	case "sgd":
		updated = u.sgd(param, from, grad, pace)
	case "lion":
		updated = u.lion(param, from, grad, pace)
	default:
		updated = u.adam(param, from, grad, pace)
	}
	updated = u.chosen(updated, old) // in float32: Where takes no bfloat16 before operator set 16
	u.settle(i, updated)
}

// sgd: m' = momentum·m + g; p' = p - lr·m', or with Nesterov's momentum p - lr·(g + momentum·m').
func (u *updater) sgd(param, old, grad Value, pace *pace) Value {
	if u.Momentum != 0 {
		moved := u.state(param, MomentumSuffix, func(m Value) Value {
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
	avg := u.state(param, AvgSuffix, func(m Value) Value {
		return u.Add(u.Mul(u.Sub(m, grad), u.factor(u.Beta1, m)), grad)
	})
	sq := u.state(param, SqAvgSuffix, func(v Value) Value {
		return u.Add(u.Mul(v, u.factor(u.Beta2, v)), u.Mul(u.Mul(grad, grad), u.Scalar(1-u.Beta2, v)))
	})
	root := u.Div(u.Op("Sqrt", nil, sq), u.Cast(u.correction, d))
	return u.Sub(old, u.Mul(u.Div(avg, u.Add(root, u.Scalar(u.Eps, root))), u.scalar(pace.stepSize, d, 0)))
}

// lion: c = b1·m + (1-b1)·g; p' = p - lr·sign(c); m' = b2·m + (1-b2)·g. With e = b1·(m-g) these are c = g + e and
// m' = c + (b2/b1-1)·e, whose products and sums can be written over m and g, as in adam.
func (u *updater) lion(param, old, grad Value, pace *pace) Value {
	var c Value
	u.state(param, AvgSuffix, func(m Value) Value {
		e := u.Mul(u.Sub(m, grad), u.factor(u.Beta1, m))
		c = u.Add(grad, e)
		return u.Add(u.Mul(e, u.lionFactor(m)), c)
	})
	return u.Sub(old, u.Mul(u.mathSign(c), u.scalar(pace.rate, u.DType(grad), 0)))
}

// lionFactor is the factor of e in the new state of lion; 0 if the update is to be skipped.
func (u *updater) lionFactor(like Value) Value {
	return u.scalar(u.Scalar(u.Beta2/u.Beta1-1, like), u.DType(like), 0)
}

// state adds a state of a parameter: an input, and the result of f on it as an output. It returns
// the latter as the update uses it.
func (u *updater) state(param Value, suffix string, f func(Value) Value) Value {
	t := u.Type(param)
	if !u.Stochastic {
		t.DType = updateType(t.DType)
	}
	name := u.j.g.ValueName(param) + suffix
	old := u.work(u.newInput(name, t))
	updated := f(old)
	u.next(name, u.rounded(u.chosen(updated, old), t.DType, name))
	return updated
}
