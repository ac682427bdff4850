package op

import "memopt/graph"

// FillRole is the role of an operator's input, for programs that generate data for models without
// any.
type FillRole uint8

const (
	// FillSame: its elements are those of output 0, or among them, so a reader of the output
	// determines the fill of the input.
	FillSame FillRole = iota + 1
	// FillScale multiplies: 1 is neutral.
	FillScale
	// FillShift is added: 0 is neutral. Biases and running means.
	FillShift
	// FillVariance is a running variance: 1.
	FillVariance
	// FillIndex indexes axis Axis of input Of: from 0 to the dim less 1.
	FillIndex
	// FillLength is a length along axis Axis of input Of: the dim itself.
	FillLength
)

// Fill is the role of one input.
type Fill struct {
	Slot     int
	Role     FillRole
	Of, Axis int
	AxisAttr string // the attribute that gives the axis; Axis is its default then
}

// fills lists the roles by operator.
var fills = [NumKinds][]Fill{
	Add:      {{Slot: 0, Role: FillShift}, {Slot: 1, Role: FillShift}},
	Sub:      {{Slot: 1, Role: FillShift}},
	Mul:      {{Slot: 0, Role: FillScale}, {Slot: 1, Role: FillScale}},
	Div:      {{Slot: 1, Role: FillScale}},
	Scale:    {{Slot: 1, Role: FillScale}},
	PRelu:    {{Slot: 1, Role: FillScale}},
	BiasAdd:  {{Slot: 1, Role: FillShift}},
	BiasGelu: {{Slot: 1, Role: FillShift}},
	FastGelu: {{Slot: 1, Role: FillShift}},
	Gemm:     {{Slot: 2, Role: FillShift}},

	Conv:          {{Slot: 2, Role: FillShift}},
	ConvTranspose: {{Slot: 2, Role: FillShift}},
	LSTM:          {{Slot: 3, Role: FillShift}, {Slot: 4, Role: FillLength, Of: 0, Axis: 0}},
	GRU:           {{Slot: 3, Role: FillShift}, {Slot: 4, Role: FillLength, Of: 0, Axis: 0}},
	RNN:           {{Slot: 3, Role: FillShift}, {Slot: 4, Role: FillLength, Of: 0, Axis: 0}},

	BatchNormalization: {{Slot: 1, Role: FillScale}, {Slot: 2, Role: FillShift},
		{Slot: 3, Role: FillShift}, {Slot: 4, Role: FillVariance}},
	BatchNormInternal: {{Slot: 1, Role: FillScale}, {Slot: 2, Role: FillShift},
		{Slot: 3, Role: FillShift}, {Slot: 4, Role: FillVariance}},
	InstanceNormalization:        {{Slot: 1, Role: FillScale}, {Slot: 2, Role: FillShift}},
	GroupNormalization:           {{Slot: 1, Role: FillScale}, {Slot: 2, Role: FillShift}},
	GroupNorm:                    {{Slot: 1, Role: FillScale}, {Slot: 2, Role: FillShift}},
	LayerNormalization:           {{Slot: 1, Role: FillScale}, {Slot: 2, Role: FillShift}},
	RMSNormalization:             {{Slot: 1, Role: FillScale}},
	SimplifiedLayerNormalization: {{Slot: 1, Role: FillScale}},
	SkipLayerNormalization: {{Slot: 2, Role: FillScale}, {Slot: 3, Role: FillShift},
		{Slot: 4, Role: FillShift}},
	SkipSimplifiedLayerNormalization: {{Slot: 2, Role: FillScale}, {Slot: 3, Role: FillShift}},

	Gather:                            {{Slot: 1, Role: FillIndex, Of: 0, Axis: 0, AxisAttr: "axis"}},
	GatherElements:                    {{Slot: 1, Role: FillIndex, Of: 0, Axis: 0, AxisAttr: "axis"}},
	ScatterElements:                   {{Slot: 1, Role: FillIndex, Of: 0, Axis: 0, AxisAttr: "axis"}},
	Scatter:                           {{Slot: 1, Role: FillIndex, Of: 0, Axis: 0, AxisAttr: "axis"}},
	ATen:                              {{Slot: 1, Role: FillIndex, Of: 0, Axis: 0}},
	SoftmaxCrossEntropyLoss:           {{Slot: 1, Role: FillIndex, Of: 0, Axis: 1}},
	SoftmaxCrossEntropyLossInternal:   {{Slot: 1, Role: FillIndex, Of: 0, Axis: 1}},
	NegativeLogLikelihoodLoss:         {{Slot: 1, Role: FillIndex, Of: 0, Axis: 1}},
	NegativeLogLikelihoodLossInternal: {{Slot: 1, Role: FillIndex, Of: 0, Axis: 1}},

	Identity: same0, Cast: same0, Reshape: same0, Flatten: same0, Squeeze: same0, Unsqueeze: same0, Transpose: same0,
	Slice: same0, Expand: same0, Tile: same0, Concat: same0, ConcatTraining: same0, Split: same0, SplitTraining: same0,
	MemcpyFromHost: same0, MemcpyToHost: same0,
}

// same0: input 0 is moved to output 0.
var same0 = []Fill{{Slot: 0, Role: FillSame}}

// Fills returns the roles of an operator's inputs; inputs that are not listed have no role.
func Fills(k graph.Kind) []Fill { return fills[k] }
