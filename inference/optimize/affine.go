package optimize

import (
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// scaling is a node's effect on each channel, axis 1, of its input: it multiplies and adds. Lists
// have one number for each channel, or one for all; nil leaves the input unchanged.
type scaling struct {
	in           graph.ValueID
	scale, shift []float64
	constants    []graph.ValueID // that it reads
}

// scalings reads nodes that scale and shift channels.
var scalings = [op.NumKinds]func(s *site, n *graph.Node) *scaling{
	op.BatchNormalization: normScaling,
	op.Mul:                constantScaling(true),
	op.Add:                constantScaling(false),
}

// linear says where the weights of an operator that is linear in them are, whose outputs have their
// channels at axis 1.
type linear struct {
	// axis is the axis of the weights, input 1, for the output's channels. ok is false for nodes
	// whose channels are not one axis of them.
	axis func(n *graph.Node) (axis int, ok bool)
	// factor is the attribute that scales the bias, input 2; "" for operators without one.
	factor string
}

var linears = [op.NumKinds]*linear{
	op.Conv: {axis: func(*graph.Node) (int, bool) { return 0, true }},
	op.ConvTranspose: {axis: func(n *graph.Node) (int, bool) {
		return 1, n.Int("group", 1) == 1
	}},
	op.Gemm: {factor: "beta", axis: func(n *graph.Node) (int, bool) {
		if n.Int("transB", 0) != 0 {
			return 0, true
		}
		return 1, true
	}},
}

// foldAffine multiplies weights by the scales behind them, and adds the shifts to their biases, in
// float64.
func foldAffine(s *site) error {
	s.Nodes(func(n *graph.Node) {
		if scalings[n.Kind] == nil || !known(n) || !s.onlyFirst(n) {
			return
		}
		sc := scalings[n.Kind](s, n)
		if sc == nil {
			return
		}
		maker := s.Maker(sc.in)
		if maker == nil || linears[maker.Kind] == nil || !known(maker) || s.Gone(maker) || !s.Only(sc.in, n) ||
			!s.sameType(sc.in, n.Output(0)) {
			return
		}
		s.scaleWeights(n, maker, sc)
	})
	return nil
}

// scaleWeights applies the effect of a node to the weights of the product or convolution before it.
func (s *site) scaleWeights(n, maker *graph.Node, sc *scaling) {
	row := linears[maker.Kind]
	axis, ok := row.axis(maker)
	w := maker.Input(1)
	dims, elems, isConstant := s.floats(w)
	if !ok || !isConstant || axis >= len(dims) {
		return
	}
	channels := dims[axis]
	bias, biasOK := s.biasOf(maker, row, channels)
	switch {
	case !biasOK || len(sc.scale) > 1 && int64(len(sc.scale)) != channels ||
		len(sc.shift) > 1 && int64(len(sc.shift)) != channels:
		return
	case !s.Only(w, maker):
		s.leave(n, "the weights %q of %s are read by others, too", s.G.ValueName(w), s.label(maker))
		return
	}
	sc.apply(dims, axis, elems, bias)
	weights, bounded := rounded(elems)
	shifts, bounded2 := rounded(bias)
	if !bounded || !bounded2 {
		s.leave(n, "the scaled weights of %s are not finite", s.label(maker))
		return
	}
	biased := sc.shift != nil || maker.Input(2) != graph.NoValue
	if growth := s.biasGrowth(n, maker, sc, channels); biased && growth > s.run.o.Growth {
		s.leave(n, "a bias of %s: the file would grow by %d bytes", s.label(maker), growth)
		return
	}
	if !s.Replace(n.Output(0), sc.in) {
		return
	}
	if !s.Gone(n) {
		s.Remove(n)
	}
	s.SetConstant(w, graph.Float32Tensor("", dims, weights...))
	if biased {
		s.setBias(maker, row, shifts)
	}
	s.did(n.Op)
}

// biasOf is the bias of a node, with its factor, for each of the channels: zeros if it is missing.
func (s *site) biasOf(n *graph.Node, row *linear, channels int64) ([]float64, bool) {
	bias := make([]float64, channels)
	v := n.Input(2)
	if v == graph.NoValue {
		return bias, true
	}
	dims, elems, ok := s.floats(v)
	if !ok || int64(len(elems)) != channels && len(elems) != 1 || len(elems) > 1 && dims[len(dims)-1] != channels {
		return nil, false
	}
	factor := 1.0
	if row.factor != "" {
		factor = float64(n.Float(row.factor, 1))
	}
	for i := range bias {
		bias[i] = factor * elems[min(i, len(elems)-1)]
	}
	return bias, true
}

// biasGrowth is the growth of the file by a node's new bias, less the constants that are then not
// needed.
func (s *site) biasGrowth(n, maker *graph.Node, sc *scaling, channels int64) int64 {
	name := s.label(maker) + "/bias"
	growth := field(tensorBytes(name, []int64{channels}, 4*channels)) + text(name) - nodeBytes(s.G, n)
	constants := slices.Clone(sc.constants)
	if old := maker.Input(2); old != graph.NoValue {
		constants = append(constants, old)
	}
	for _, v := range constants {
		if t := s.weight(v); t != nil && len(s.Readers(v)) == 1 && !s.Held(v) {
			b, _ := t.Bytes()
			growth -= field(tensorBytes(t.Name, t.Dims, b))
		}
	}
	return growth
}

// setBias gives a node a bias.
func (s *site) setBias(n *graph.Node, row *linear, bias []float32) {
	if row.factor != "" && n.Attr(row.factor) != nil {
		n.SetAttr(row.factor, float32(1))
	}
	t := graph.Float32Tensor(s.label(n)+"/bias", []int64{int64(len(bias))}, bias...)
	if old := n.Input(2); old != graph.NoValue && s.Only(old, n) {
		s.SetConstant(old, t)
		return
	}
	if v, err := s.Constant(t, graph.NoValue); err == nil { // the name is a new one
		s.SetInput(n, 2, v)
	}
}

// apply scales weights along an axis, and scales and shifts a bias.
func (sc *scaling) apply(dims []int64, axis int, elems, bias []float64) {
	inner := 1
	for _, d := range dims[axis+1:] {
		inner *= int(d)
	}
	channels := int(dims[axis])
	for i := range elems {
		elems[i] *= at(sc.scale, i/inner%channels, 1)
	}
	for c := range bias {
		bias[c] = bias[c]*at(sc.scale, c, 1) + at(sc.shift, c, 0)
	}
}

// at is the number of a channel.
func at(list []float64, channel int, none float64) float64 {
	switch len(list) {
	case 0:
		return none
	case 1:
		return list[0]
	}
	return list[channel]
}

// rounded rounds to float32; ok is false where that is not finite.
func rounded(list []float64) (out []float32, ok bool) {
	out = make([]float32, len(list))
	for i, x := range list {
		out[i] = float32(x)
		if y := float64(out[i]); math.IsInf(y, 0) || math.IsNaN(y) {
			return nil, false
		}
	}
	return out, true
}

// normScaling: (x - mean)·scale/√(var + ε) + bias.
func normScaling(s *site, n *graph.Node) *scaling {
	if inTraining(s.run.m, n) || n.Int("spatial", 1) == 0 {
		return nil
	}
	sc := &scaling{in: n.Input(0)}
	var lists [5][]float64
	for i := 1; i < 5; i++ {
		dims, elems, ok := s.floats(n.Input(i))
		if !ok || len(dims) != 1 {
			return nil
		}
		lists[i] = elems
		sc.constants = append(sc.constants, n.Input(i))
	}
	epsilon := float64(n.Float("epsilon", 1e-5))
	scale, bias, mean, variance := lists[1], lists[2], lists[3], lists[4]
	if len(bias) != len(scale) || len(mean) != len(scale) || len(variance) != len(scale) {
		return nil
	}
	for c := range scale {
		scale[c] /= math.Sqrt(variance[c] + epsilon)
		bias[c] -= mean[c] * scale[c]
	}
	sc.scale, sc.shift = scale, bias
	return sc
}

// constantScaling is for a product or sum with one operand that is a constant for each channel.
func constantScaling(product bool) func(*site, *graph.Node) *scaling {
	return func(s *site, n *graph.Node) *scaling {
		for slot := range 2 {
			in, c := n.Input(1-slot), n.Input(slot)
			dims, elems, ok := s.floats(c)
			maker := s.Maker(in)
			if !ok || len(elems) == 0 || maker == nil || linears[maker.Kind] == nil ||
				!perChannel(dims, s.typeOf(in).Shape) {
				continue
			}
			sc := &scaling{in: in, constants: []graph.ValueID{c}}
			if product {
				sc.scale = elems
			} else {
				sc.shift = elems
			}
			return sc
		}
		return nil
	}
}

// perChannel reports whether a constant differs at most along axis 1 of a shape.
func perChannel(dims []int64, of graph.Shape) bool {
	if !of.Ranked || len(dims) > len(of.Dims) {
		return false
	}
	for i, d := range dims {
		if at := len(of.Dims) - len(dims) + i; d != 1 && at != 1 {
			return false
		}
	}
	return true
}
