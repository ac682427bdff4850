package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// Check is an input whose elements kernels look at before they compute with them: indices, labels,
// sizes, axes, divisors. Elements that are not as wanted end the run with an error. An operator
// without a check for an input takes any elements there.
type Check struct {
	In int
	// Floats says that the elements of floats are looked at as well.
	Floats bool
	// AnyInteger says that any integer is as wanted: a zero point of int8 may be any, one of float8 is 0.
	AnyInteger bool
	// Within gives the bounds that the elements must keep; nil where there is more to it.
	Within func(b *bounder, n *graph.Node) elementBounds
	// By is an operator whose outputs are right as they are; Unknown if there is no such operator.
	By graph.Kind
}

// checks lists the checks by kind. TestChecks holds them to the inputs that kernels refuse.
var checks = [NumKinds][]Check{
	Gather: {{In: 1, Within: indexOf(inputShape, 0, 0)}}, ShrunkenGather: {{In: 1, Within: indexOf(inputShape, 0, 0)}},
	GatherBlockQuantized: {{In: 1, Within: indexOf(inputShape, 0, 0)}},
	GatherElements:       {{In: 1, Within: indexOf(inputShape, 0, 0)}},
	Scatter:              {{In: 1, Within: indexOf(inputShape, 0, 0)}},
	ScatterElements:      {{In: 1, Within: indexOf(inputShape, 0, 0)}},
	GatherND:             {{In: 1, Within: tupleOf(inputShape, 0)}},
	ScatterND:            {{In: 1, Within: tupleOf(inputShape, 0)}},
	GatherGrad:           {{In: 0}, {In: 1, Within: indexOf(outputShape, 0, 0)}},
	GatherElementsGrad:   {{In: 1}, {In: 2, Within: indexOf(outputShape, 0, 0)}},
	GatherNDGrad:         {{In: 0}, {In: 1, Within: tupleOf(outputShape, 0)}},
	ATen: {{In: 1}, {In: 2, Floats: true}, {In: 3, Floats: true}, {In: 4}, {In: 5}, {In: 6}, {In: 7, Floats: true},
		{In: 8}},
	FlattenAndUnpad: {{In: 1}}, PadAndUnflatten: {{In: 1}, {In: 2}},
	EmbedLayerNormalization: {{In: 0, Within: rowOf(2)}, {In: 1, Within: rowOf(4)}, {In: 8, Within: rowOf(3)}},
	TensorScatter:           {{In: 2}},
	RotaryEmbedding:         {{In: 3}}, RotaryEmbeddingMS: {{In: 1}},

	NegativeLogLikelihoodLoss:           {{In: 1, Within: labelOf(0, -1)}},
	SoftmaxCrossEntropyLoss:             {{In: 1, Within: labelOf(0, -1)}},
	NegativeLogLikelihoodLossInternal:   {{In: 1, Within: labelOf(0, 3)}, {In: 3}},
	SoftmaxCrossEntropyLossInternal:     {{In: 1, Within: labelOf(0, 3)}, {In: 3}},
	SoftmaxCrossEntropyLossGrad:         {{In: 2, Within: labelOf(1, -1)}},
	SoftmaxCrossEntropyLossDeeploy:      {{In: 1, Within: labelOf(0, -1)}},
	SoftmaxCrossEntropyLossGradDeeploy:  {{In: 1, Within: labelOf(0, -1)}},
	SoftmaxCrossEntropyLossInternalGrad: {{In: 2, Within: labelOf(1, 4)}, {In: 4}},

	MaxPoolGrad: {{In: 1, By: MaxPool}}, MaxUnpool: {{In: 1, By: MaxPool}, {In: 2}},
	MaxRoiPool: {{In: 1, Floats: true}}, RoiAlign: {{In: 1, Floats: true}, {In: 2}},
	NonMaxSuppression: {{In: 3, Floats: true}},

	Div: {{In: 1}}, Mod: {{In: 1}},
	Attention: {{In: 6}}, GRU: {{In: 4}}, LSTM: {{In: 4}}, RNN: {{In: 4}}, ReverseSequence: {{In: 1}},

	BiasDropout: {{In: 3, Floats: true}}, BiasSoftmaxDropout: {{In: 2, Floats: true}},
	BitmaskBiasDropout: {{In: 3, Floats: true}}, BitmaskDropout: {{In: 1, Floats: true}},
	BitmaskDropoutGrad: {{In: 2, Floats: true}}, Dropout: {{In: 1, Floats: true}}, DropoutGrad: {{In: 2, Floats: true}},

	AffineGrid: {{In: 1}}, BroadcastGradientArgs: {{In: 0}, {In: 1}}, CenterCropPad: {{In: 1}},
	BlackmanWindow: {{In: 0}}, HammingWindow: {{In: 0}}, HannWindow: {{In: 0}},
	DequantizeLinear: {{In: 2, Floats: true, AnyInteger: true}},
	QuantizeLinear:   {{In: 2, Floats: true, AnyInteger: true}},
	DFT:              {{In: 1}, {In: 2}}, STFT: {{In: 1}, {In: 3}},
	MelWeightMatrix: {{In: 0}, {In: 1}, {In: 2}, {In: 3, Floats: true}, {In: 4, Floats: true}},
	Col2Im:          {{In: 1}, {In: 2}}, ConstantOfShape: {{In: 0}}, CumSum: {{In: 1}}, Expand: {{In: 1}},
	DynamicSlice: {{In: 3}}, Slice: {{In: 3}, {In: 4}},
	SliceGrad: {{In: 1}, {In: 2}, {In: 3}, {In: 4}, {In: 5}},
	OneHot:    {{In: 1, Floats: true}}, Pad: {{In: 1}, {In: 3}}, Reshape: {{In: 1}},
	Range:  {{In: 0, Floats: true}, {In: 1, Floats: true}, {In: 2, Floats: true}},
	Resize: {{In: 1, Floats: true}, {In: 2, Floats: true}, {In: 3}}, ResizeGrad: {{In: 3, Floats: true}},
	Upsample: {{In: 1, Floats: true}}, Split: {{In: 1}}, SplitTraining: {{In: 1}},
	Squeeze: {{In: 1}}, Unsqueeze: {{In: 1}}, Tile: {{In: 1}}, TopK: {{In: 1}},
	ReduceL1: {{In: 1}}, ReduceL2: {{In: 1}}, ReduceLogSum: {{In: 1}}, ReduceLogSumExp: {{In: 1}},
	ReduceMax: {{In: 1}}, ReduceMean: {{In: 1}}, ReduceMin: {{In: 1}}, ReduceProd: {{In: 1}}, ReduceSum: {{In: 1}},
	ReduceSumSquare: {{In: 1}}, ReduceSumTraining: {{In: 1}},
}

// Checks lists the inputs of an operator whose elements its kernels look at.
func Checks(k graph.Kind) []Check { return checks[k] }

// end is a bound of elements: its value at the bindings, and as an expression.
type end struct {
	n int64
	e symbolic.Expr
}

func endAt(n int64) end { return end{n, symbolic.Const(n)} }

// plus adds a number to a bound.
func (x end) plus(n int64) end { return end{x.n + n, x.e.Add(symbolic.Const(n))} }

func (x end) negative() end { return end{-x.n, x.e.Neg()} }

// atMost reports whether x ≤ y. Where the answer is taken from elsewhere (Asked), neither x ≤ y nor
// y ≤ x may be.
func (b *bounder) atMost(x, y end) bool {
	_, fixed := x.e.Const()
	_, too := y.e.Const()
	if b.ask != nil && !(fixed && too) {
		return b.ask(x.e, y.e, x.n <= y.n)
	}
	return x.n <= y.n
}

// smaller returns the smaller of two bounds; ok is false where it is not known which it is.
func (b *bounder) smaller(x, y end) (least end, ok bool) {
	if b.atMost(x, y) {
		return x, true
	}
	return y, b.ask == nil || b.atMost(y, x)
}

func (b *bounder) equal(x, y end) bool { return b.atMost(x, y) && b.atMost(y, x) }

// elementBounds says where the elements of a tensor of integers lie: between two bounds, or at one more
// number besides.
type elementBounds struct {
	known    bool
	low      end
	high     end
	or       end // the number besides
	orExists bool
}

// within reports whether elements keep bounds.
func (b *bounder) within(e, want elementBounds) bool {
	inside := func(x end) bool {
		return b.atMost(want.low, x) && b.atMost(x, want.high) || want.orExists && b.equal(x, want.or)
	}
	return e.known && want.known && b.atMost(want.low, e.low) && b.atMost(e.high, want.high) &&
		(!e.orExists || inside(e.or))
}

// joined are elements of either.
func (b *bounder) joined(e, f elementBounds) elementBounds {
	if !e.known || !f.known || e.orExists || f.orExists {
		return elementBounds{}
	}
	low, known := b.smaller(e.low, f.low)
	high, too := b.smaller(f.high.negative(), e.high.negative())
	return elementBounds{known: known && too, low: low, high: high.negative()}
}

// shapeSource says whose shape limits indices.
type shapeSource func(b *bounder, n *graph.Node, slot int) []end

func inputShape(b *bounder, n *graph.Node, slot int) []end { return b.shape(n.Input(slot)) }

func outputShape(b *bounder, n *graph.Node, slot int) []end { return b.shape(n.Output(slot)) }

// indexOf are bounds of indices into the axis that the attribute names; negative ones count from its
// end.
func indexOf(of shapeSource, slot int, axis int64) func(*bounder, *graph.Node) elementBounds {
	return func(b *bounder, n *graph.Node) elementBounds {
		shape := of(b, n, slot)
		at := n.Int("axis", axis)
		if at < 0 {
			at += int64(len(shape))
		}
		if at < 0 || at >= int64(len(shape)) {
			return elementBounds{}
		}
		return elementBounds{known: true, low: shape[at].negative(), high: shape[at].plus(-1)}
	}
}

// tupleOf are bounds of tuples of indices: those of the shortest axis that they address.
func tupleOf(of shapeSource, slot int) func(*bounder, *graph.Node) elementBounds {
	return func(b *bounder, n *graph.Node) elementBounds {
		shape, at := of(b, n, slot), b.shape(n.Input(1))
		first := n.Int("batch_dims", 0)
		if len(at) == 0 || first < 0 || first >= int64(len(shape)) || !b.atMost(endAt(1), at[len(at)-1]) ||
			!b.atMost(at[len(at)-1], endAt(int64(len(shape))-first)) {
			return elementBounds{}
		}
		shortest := shape[first]
		for _, d := range shape[first : first+at[len(at)-1].n] {
			var known bool
			if shortest, known = b.smaller(shortest, d); !known {
				return elementBounds{}
			}
		}
		return elementBounds{known: true, low: shortest.negative(), high: shortest.plus(-1)}
	}
}

// rowOf are bounds of places in a table.
func rowOf(table int) func(*bounder, *graph.Node) elementBounds {
	return func(b *bounder, n *graph.Node) elementBounds {
		shape := b.shape(n.Input(table))
		if len(shape) == 0 {
			return elementBounds{}
		}
		return elementBounds{known: true, high: shape[0].plus(-1)}
	}
}

// labelOf are bounds of labels: the classes of the scores' axis 1, and the label to ignore, by the
// attribute or by an input.
func labelOf(scores, ignoreAt int) func(*bounder, *graph.Node) elementBounds {
	return func(b *bounder, n *graph.Node) elementBounds {
		shape := b.shape(n.Input(scores))
		if len(shape) < 2 {
			return elementBounds{}
		}
		e := elementBounds{known: true, high: shape[1].plus(-1)}
		if ignoreAt < 0 && n.Attr("ignore_index") != nil {
			e.or, e.orExists = endAt(n.Int("ignore_index", 0)), true
		}
		if ignoreAt >= 0 && n.Input(ignoreAt) != graph.NoValue {
			ignored := b.of(n.Input(ignoreAt))
			if !ignored.known || !b.equal(ignored.low, ignored.high) {
				return elementBounds{}
			}
			e.or, e.orExists = ignored.low, true
		}
		return e
	}
}
