package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// scalar is a number of updates in the type of a gradient.
type scalar struct {
	of    Value
	dtype graph.DType
	value Value
}

// guards reports whether a guard decides about the update. It does so by the numbers that an update
// is made of: where a gradient is not finite, all gradients and the learning rate become 0, and the
// factors of the states 1. Each new value is then the old one (0 for -0), and can still be written in
// its place, which a choice between two tensors cannot.
func (u *updater) guards() bool { return u.Guard && u.finite != None }

// scalar converts a number that updates use to the type of a gradient. If the update is to be
// skipped, a guard chooses idle in its place, once for all parameters. It is asked for last:
// numbers of type double are computed on the host, which then need not wait for a device that knows
// the answer.
func (u *updater) scalar(v Value, d graph.DType, idle float64) Value {
	if !u.guards() {
		return u.Cast(v, d)
	}
	for _, s := range u.scalars {
		if s.of == v && s.dtype == d {
			return s.value
		}
	}
	typed := u.Cast(v, d)
	s := scalar{v, d, u.Where(u.finite, typed, u.Scalar(idle, typed))}
	u.scalars = append(u.scalars, s)
	return s.value
}

// shareScalars makes the numbers of a guard's updates before the first of them: all wait for the
// gradients alone then, and not for that of the first parameter.
func (u *updater) shareScalars() {
	if !u.guards() {
		return
	}
	for i, m := range u.members {
		if u.packs(u.params[i]) {
			continue // the node that updates it has the condition as an input
		}
		p, grad := u.pace(m.scale), u.grads[i]
		d := u.DType(grad)
		switch u.ruleOf(i) {
		case "adam", "adamw", "adafactor":
			u.scalar(p.stepSize, d, 0)
		default:
			u.scalar(p.rate, d, 0)
		}
		switch u.ruleOf(i) {
		case "lion", "muon":
			u.blendFactor(u.blendOf(i), grad)
		case "adafactor":
			u.scalar(u.share, d, 0)
		}
		if m.decay != 0 && u.shrinks() {
			u.scalar(u.kept(p, m.decay), d, 1)
		}
	}
	for k := range 2 {
		for i, grad := range u.grads {
			if f := u.factorsOf(i); k < len(f) && f[k] != 0 && !u.packs(u.params[i]) {
				u.factor(f[k], grad)
			}
		}
	}
}

// factorsOf are the factors of old states in the update of a parameter.
func (u *updater) factorsOf(i int) []float64 {
	switch u.ruleOf(i) {
	case "adam", "adamw":
		return []float64{u.Beta1, u.Beta2}
	case "lion", "muon":
		return []float64{u.blendOf(i).old}
	case "adafactor":
		return nil
	}
	return []float64{u.Momentum}
}

// factor is the factor of an old state in an update.
func (u *updater) factor(x float64, state Value) Value {
	return u.scalar(u.Scalar(x, state), u.DType(state), 1)
}

// guarded is a gradient, or zeros if the update is to be skipped.
func (u *updater) guarded(grad Value) Value {
	if !u.guards() {
		return grad
	}
	return u.Where(u.finite, grad, u.Scalar(0, grad))
}

// spareStatistics gives the nodes that update running statistics copies of them, which come before all
// nodes: ONNX Runtime's kernels write the new ones over the old, and a guard may want the old ones.
// Its optimizations would take out an Identity; they leave alone operators that choose elements.
func (u *updater) spareStatistics() {
	g := u.j.g
	if !u.Guard || len(u.j.out.Wrt) == 0 {
		return
	}
	nodes := len(g.Nodes)
	u.j.prefix = "/statistics/"
	for _, n := range g.Nodes[:nodes] {
		for _, s := range op.Of(n.Kind).Updates {
			in := n.Input(s.In)
			if slices.ContainsFunc(u.before, func(p live.StatePair) bool { return p.Input == g.ValueName(in) }) {
				n.Inputs[s.In] = u.Where(u.always(), in, u.Scalar(0, in))
			}
		}
	}
	u.j.prefix = u.j.base
	u.j.out.Backward += graph.NodeID(len(g.Nodes) - nodes)
	g.SetNodes(slices.Concat(g.Nodes[nodes:], g.Nodes[:nodes]))
}

// always is true.
func (u *updater) always() Value {
	return u.j.constant(&graph.TensorData{DType: graph.Bool, Dims: []int64{}, Source: graph.Raw{1}})
}

// guardStates keeps the states that the graph had before its update, running statistics, as they were
// if the update is to be skipped.
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
