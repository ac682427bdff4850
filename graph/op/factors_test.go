package op

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// unfactored lists the operators without a rule of factors, and why.
var unfactored = map[string][]graph.Kind{
	"it works on no elements of an operand": {Constant, ConstantOfShape, EyeLike, RandomNormal, RandomUniform, Range,
		Shape, Size, AffineGrid, BlackmanWindow, HammingWindow, HannWindow, BroadcastGradientArgs},
	"where an element goes depends on data, or on its place in the whole": {CenterCropPad, Compress, Multinomial,
		NonZero, ScatterND, TensorScatter, Unique, NonMaxSuppression, MaxUnpool, MaxPoolGrad, MaxRoiPool, RoiAlign,
		FlattenAndUnpad, PadAndUnflatten, ShrunkenGather, DynamicSlice},
	"bits of neighbours share words": {BitmaskBiasDropout, BitmaskDropout, BitmaskDropoutGrad},
	"one number is made of all elements, and not by a sum": {DynamicQuantizeLinear, IsAllFinite, ReduceAllL2,
		MixedPrecisionScale},
	"its operands are no tensors, or are bodies": {ConcatFromSequence, If, Loop, Optional, OptionalGetElement,
		OptionalHasElement, Scan, SequenceAt, SequenceConstruct, SequenceEmpty, SequenceErase, SequenceInsert,
		SequenceLength, SplitToSequence},
	"it is many operators in one, in many forms": {AttentionMS, BiasSplitGelu, EmbedLayerNormalization,
		GroupQueryAttention},
	"it has state, or effects outside": {ATen, AdamOptimizer, AdamWOptimizer, InPlaceAccumulator, InPlaceAccumulatorV2,
		NcclAllReduce, PythonOp, PythonOpGrad, SGDOptimizerV2, YieldOp, ZeroGradient, SGDDeeploy},
	"its dialect is read for microcontrollers only": {GemmDeeploy, LayerNormalizationGradDeeploy,
		SoftmaxCrossEntropyLossDeeploy, SoftmaxCrossEntropyLossGradDeeploy},
}

// TestEveryRowHasFactors: a row has a rule, or a reason why its work falls into no parts.
func TestEveryRowHasFactors(t *testing.T) {
	reasons := map[graph.Kind]string{}
	for why, kinds := range unfactored {
		for _, k := range kinds {
			reasons[k] = why
		}
	}
	for k := Unknown + 1; k < NumKinds; k++ {
		switch info := Of(k); {
		case info.Factors == nil && reasons[k] == "":
			t.Errorf("%s (%s): no rule of factors and no reason in unfactored", info.Name, info.Domain)
		case info.Factors != nil && reasons[k] != "":
			t.Errorf("%s: has a rule of factors, and a reason why not", info.Name)
		}
	}
}

// factorsOf parses a graph of one node and returns its factors.
func factorsOf(t *testing.T, opset int, decls, fixed, node string) []Factor {
	p := pieceOf(t, opset, decls, fixed, node)
	return FactorsOf(p)
}

func at(dim int) Place { return Place{Dim: dim, Outer: 1, Inner: 1} }

// TestFactorsByHand holds rules to factors that were written down by hand; executor/cpu holds all to
// what kernels compute.
func TestFactorsByHand(t *testing.T) {
	got := factorsOf(t, 17, "float[2, 3, 4] given, float[4, 5] w", "", "y = MatMul(given, w)")
	require.Equal(t, []Factor{
		{Size: 4, In: []Place{at(2), at(0)}, Out: []Place{whole}, Reduce: SumOf},
		{Size: 5, In: []Place{whole, at(1)}, Out: []Place{at(2)}},
		{Size: 3, In: []Place{at(1), whole}, Out: []Place{at(1)}},
		{Size: 2, In: []Place{at(0), whole}, Out: []Place{at(0)}},
	}, got)
	got = factorsOf(t, 17, "float[8, 3] given, float[5, 3] w, float[5] b", "",
		"y = Gemm <transB = 1> (given, w, b)")
	require.Equal(t, []Factor{
		{Size: 3, In: []Place{at(1), at(1), whole}, Out: []Place{whole}, Reduce: SumOf, Once: []int{2}},
		{Size: 5, In: []Place{whole, at(0), at(0)}, Out: []Place{at(1)}},
		{Size: 8, In: []Place{at(0), whole, whole}, Out: []Place{at(0)}},
	}, got)
	// Tokens and heads: the batch is the outer part of the rows, the sequence the inner one.
	got = factorsOf(t, 17, "float[6, 20] given", "int64[4] s = {2, 3, 5, 4}", "y = Reshape(given, s)")
	require.Equal(t, []Factor{
		{Size: 2, In: []Place{{0, 1, 3}, whole}, Out: []Place{at(0)}},
		{Size: 3, In: []Place{{0, 2, 1}, whole}, Out: []Place{at(1)}},
		{Size: 5, In: []Place{{1, 1, 4}, whole}, Out: []Place{at(2)}},
		{Size: 4, In: []Place{{1, 5, 1}, whole}, Out: []Place{at(3)}},
	}, got)
	got = factorsOf(t, 17, "float[6, 4] given", "int64[2] s = {8, 3}", "y = Reshape(given, s)")
	require.Empty(t, got, "6×4 and 8×3 have no factors in common")
	got = factorsOf(t, 17, "float[2, 3, 4] given", "", "y = Transpose <perm = [2, 0, 1]> (given)")
	require.Equal(t, []Factor{
		{Size: 4, In: []Place{at(2)}, Out: []Place{at(0)}},
		{Size: 2, In: []Place{at(0)}, Out: []Place{at(1)}},
		{Size: 3, In: []Place{at(1)}, Out: []Place{at(2)}},
	}, got)
	got = factorsOf(t, 17, "float[7, 4] given, int64[2, 3] i", "", "y = Gather(given, i)")
	require.Equal(t, []Factor{
		{Size: 4, In: []Place{at(1), whole}, Out: []Place{at(2)}},
		{Size: 2, In: []Place{whole, at(0)}, Out: []Place{at(0)}},
		{Size: 3, In: []Place{whole, at(1)}, Out: []Place{at(1)}},
	}, got)
	got = factorsOf(t, 17, "float[2, 5, 3] given, int64[2, 3] labels", "",
		"y, p = SoftmaxCrossEntropyLoss <reduction = \"sum\"> (given, labels)")
	require.Equal(t, []Factor{
		{Size: 2, In: []Place{at(0), at(0)}, Out: []Place{whole, at(0)}, Reduce: SumOf},
		{Size: 3, In: []Place{at(2), at(1)}, Out: []Place{whole, at(2)}, Reduce: SumOf},
	}, got)
	require.Empty(t, factorsOf(t, 17, "float[2, n] given", "", "y = Relu(given)"), "a dim is not known")
	require.Empty(t, factorsOf(t, 11, "float[2, 3] given", "", "y = Squeeze(given)"))
}
