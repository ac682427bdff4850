package autograd

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/lowbit"
	"memopt/symbolic"
)

// packs reports whether the states of a parameter are stored in codes. Those of small parameters, and of parameters
// with a part of a block, are float32, as in torchao; those of doubles are doubles.
func (u *updater) packs(param Value) bool {
	t := u.Type(param)
	if u.Bits() == 0 || t.DType == graph.Float64 {
		return false
	}
	n, ok := t.Shape.Elements().Const()
	if !ok {
		u.must(fmt.Errorf("optimizer %s: parameter %q is %v: wanted a fixed shape, whose elements fall into blocks",
			u.Kind, u.j.g.ValueName(param), t))
	}
	return lowbit.FormatOf(u.Bits(), true).Takes(n)
}

// updatePacked emits the update of a parameter whose states are codes, in one node: so no state of it is there in
// float32. The node multiplies the gradient by factor, or by 1 for None, and has the condition of the update. It
// returns the scales of a new state.
func (u *updater) updatePacked(i int, param, grad, factor Value) (scales Value) {
	u.need(13) // for the function that defines the node; byChance needs more
	decay, pace := u.members[i].decay, u.pace(u.members[i].scale)
	t, keep, added := u.Type(param), u.float(1), decay
	if u.shrinks() {
		if added = 0; decay != 0 {
			keep = u.Cast(u.kept(pace, decay), graph.Float32)
		}
	}
	if factor == None {
		factor = u.float(1)
	}
	update := u.finite
	if update == None {
		update = u.always()
	}
	f := lowbit.FormatOf(u.Bits(), true)
	n, _ := t.Shape.Elements().Const()
	vector := func(d graph.DType, n int64) graph.Type { return graph.Tensor(d, graph.Dims(symbolic.Const(n))) }
	codes := graph.Tensor(graph.Uint8, t.Shape)
	if u.Bits() < 8 {
		codes = vector(graph.Uint8, f.CodeBytes(n))
	}
	in, states := []Value{param, grad}, []string{""}
	for _, suffix := range u.States() {
		name := u.j.g.ValueName(param) + suffix
		states = append(states, name, name+ScaleSuffix)
		in = append(in, u.newInput(name, codes), u.newInput(name+ScaleSuffix, vector(graph.Float32, n/int64(f.Block))))
	}
	in = append(in, u.Cast(pace.stepSize, graph.Float32), u.Cast(u.correction, graph.Float32), keep,
		u.Cast(factor, graph.Float32), update)
	name, last := fmt.Sprintf("Adam%dbit", u.Bits()), A("to", int64(t.DType))
	if u.byChance(t.DType) {
		name, last, in = "Stochastic"+name, A("seed", u.seedOf(u.j.g.ValueName(param))), append(in, u.step)
	}
	out := u.Owns(name, len(states), Attrs{A("decay", float32(added)), A("epsilon", float32(u.Eps)),
		A("share1", float32(1-u.Beta1)), A("share2", float32(1-u.Beta2)), last}, in...)
	for k, name := range states[1:] {
		u.next(name, out[k+1])
	}
	u.settle(i, out[0])
	return out[2]
}

// float is a constant of type float.
func (u *updater) float(x float64) Value {
	raw, err := scalarBytes(graph.Float32, x)
	u.must(err)
	return u.j.constant(&graph.TensorData{DType: graph.Float32, Dims: []int64{}, Source: graph.Raw(raw)})
}

// zerosAfter replace a sum of gradients that an update reads whose states are codes. Whether its elements are chosen
// depends on the scales that the update makes, which are never negative.
func (u *updater) zerosAfter(sum, scales Value) Value {
	first := u.Op("Gather", nil, scales, u.Int(0))
	return u.Where(u.Op("Less", nil, first, u.float(0)), sum, u.Scalar(0, sum))
}

// importOwn imports memopt's operators where the update may have some.
func (u *updater) importOwn(m *graph.Model) {
	if u.Ranks.several() || u.Bits() > 0 || u.Stochastic {
		op.Import(m, op.DomainMemopt)
	}
}
