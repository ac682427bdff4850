package op

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"memopt/graph"
)

// ortLayerEntries continues ortEntries for layers, control flow and ONNX Runtime's own operators.
var ortLayerEntries = map[graph.Kind][]Recomputable{
	BatchNormalization: {{0, []int{1, 6, 7, 9, 14, 15}, nil}},
	Dropout:            {{0, []int{12, 13}, []int{1, 2}}},
	MemcpyFromHost:     {{0, []int{1}, []int{0}}},
	BiasGelu:           {{0, []int{1}, nil}},
	FastGelu:           {{0, []int{1}, nil}},
	GeluMS:             {{0, []int{1}, nil}},
	QuickGelu:          {{0, []int{1}, nil}},
	ConcatTraining:     {{0, []int{1}, nil}},
	BiasDropout:        {{0, []int{1}, []int{3, 4}}},
	BitmaskBiasDropout: {{0, []int{1}, []int{3, 4}}},
	BitmaskDropout:     {{0, []int{1}, []int{1, 2}}},
	FlattenAndUnpad:    {{0, []int{1}, []int{1}}},
	PadAndUnflatten:    {{0, []int{1}, []int{1, 2}}},
	PythonOp:           {{0, []int{1}, nil}},

	Softmax:                          {{1, []int{1, 11, 13}, nil}},
	LayerNormalization:               {{1, []int{1, 17}, nil}},
	SimplifiedLayerNormalization:     {{1, []int{1}, nil}},
	BiasSoftmax:                      {{1, []int{1}, nil}},
	BiasSoftmaxDropout:               {{1, []int{1}, []int{2}}},
	FusedMatMul:                      {{1, []int{1}, nil}},
	SkipLayerNormalization:           {{1, []int{1}, nil}},
	SkipSimplifiedLayerNormalization: {{1, []int{1}, nil}},
}

func TestRecomputableLayerEntries(t *testing.T) {
	for k := AffineGrid; k < NumKinds; k++ {
		assert.Equal(t, ortLayerEntries[k], Of(k).ORT, "op %s", Of(k).Name)
	}
}

// withRole lists the kinds that have a role.
func withRole(r Role) (kinds []graph.Kind) {
	for k := Unknown + 1; k < NumKinds; k++ {
		if Of(k).Has(r) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// TestRoles: the analyses count on exactly these.
func TestRoles(t *testing.T) {
	assert.ElementsMatch(t, []graph.Kind{YieldOp}, withRole(Yield))
	assert.ElementsMatch(t,
		[]graph.Kind{NegativeLogLikelihoodLoss, NegativeLogLikelihoodLossInternal, SoftmaxCrossEntropyLoss,
			SoftmaxCrossEntropyLossInternal,
			SoftmaxCrossEntropyLossDeeploy}, withRole(Loss))
	assert.ElementsMatch(t,
		[]graph.Kind{LayerNormalization, SimplifiedLayerNormalization, SkipLayerNormalization, RMSNormalization,
			SkipSimplifiedLayerNormalization}, withRole(Norm))
	assert.ElementsMatch(t, []graph.Kind{Softmax, BiasSoftmax}, withRole(AttentionSoftmax))
	assert.ElementsMatch(t, []graph.Kind{PythonOp}, withRole(PythonRole))
}

// TestSeeds: these draw random numbers, and their masks can be drawn again from these versions on.
func TestSeeds(t *testing.T) {
	for _, k := range []graph.Kind{BiasDropout, BitmaskBiasDropout, BitmaskDropout, BiasSoftmaxDropout} {
		assert.True(t, Of(k).Random && Of(k).CanSeed(1), "op %s", Of(k).Name)
	}
	for since, can := range map[int]bool{7: false, 10: false, 12: true, 13: true, 22: true} {
		assert.Equal(t, can, Of(Dropout).CanSeed(since), "Dropout-%d", since)
	}
}

// TestNothingWithStateIsMadeAgain: optimizers, accumulators, communication, control flow and the
// boundary between the halves.
func TestNothingWithStateIsMadeAgain(t *testing.T) {
	for _, k := range []graph.Kind{Adam4bit, Adam8bit, StochasticAdam4bit, StochasticAdam8bit, StochasticRound,
		AdamOptimizer, AdamWOptimizer, SGDOptimizerV2, SGDDeeploy,
		InPlaceAccumulator,
		InPlaceAccumulatorV2,
		ZeroGradient, NcclAllReduce, AllGatherStart, AllReduceStart, CollectiveWait, ReduceScatterStart,
		Offload, Reload, Wait,
		YieldOp, PythonOp, PythonOpGrad, ATen, If, Loop, Scan} {
		assert.Equal(t, Never, Of(k).Class, "op %s", Of(k).Name)
	}
}

// TestLayerNormVersions: ONNX Runtime's version 1 below operator set 17, ONNX's own from there on;
// the simplified norm is version 1 at any.
func TestLayerNormVersions(t *testing.T) {
	assert.Equal(t, 1, Of(LayerNormalization).SinceVersion(16))
	assert.Equal(t, 17, Of(LayerNormalization).SinceVersion(17))
	assert.Equal(t, 1, Of(SimplifiedLayerNormalization).SinceVersion(23))
	assert.Equal(t, 1, Of(MemcpyFromHost).SinceVersion(23))
}
