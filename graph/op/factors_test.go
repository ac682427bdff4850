package op

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// unfactored lists the operators without a rule of factors, and why.
var unfactored = map[string][]graph.Kind{
	"it works on no elements of an operand": {Constant, EyeLike, RandomNormal, RandomUniform, Range,
		Shape, Size, AffineGrid, BlackmanWindow, HammingWindow, HannWindow, BroadcastGradientArgs,
		MelWeightMatrix},
	"a part would be along other axes than the transform, and no training graph is large there": {DFT, STFT},
	"where an element goes depends on data, or on its place in the whole": {CenterCropPad, Compress,
		NonZero, ScatterND, TensorScatter, Unique, NonMaxSuppression, MaxUnpool, MaxPoolGrad, MaxRoiPool, RoiAlign,
		FlattenAndUnpad, PadAndUnflatten, ShrunkenGather, DynamicSlice},
	"weights are packed along the dims that would be cut, and no rule has the rows alone": {MatMulNBits,
		GatherBlockQuantized},
	"one number is made of all elements, and not by a sum": {DynamicQuantizeLinear, IsAllFinite, ReduceAllL2,
		MixedPrecisionScale},
	"its operands are no tensors, or are bodies": {ConcatFromSequence, If, Loop, Optional, OptionalGetElement,
		OptionalHasElement, Scan, SequenceAt, SequenceConstruct, SequenceEmpty, SequenceErase, SequenceInsert,
		SequenceLength, SplitToSequence},
	"it is many operators in one, in many forms": {AttentionMS, BiasSplitGelu, EmbedLayerNormalization,
		GroupQueryAttention, Instruction, InstructionInPlace, InstructionOnce, InstructionOnceInPlace},
	"it has state, or effects outside": {ATen, Adam4bit, Adam8bit, StochasticAdam4bit,
		StochasticAdam8bit, StochasticRound, AdamOptimizer, AdamWOptimizer,
		InPlaceAccumulator, InPlaceAccumulatorV2,
		NcclAllReduce, AllGatherStart, AllReduceStart, CollectiveWait, RankPiece, ReduceScatterStart, Unpack,
		Offload, Reload, Wait,
		PythonOp, PythonOpGrad, SGDOptimizerV2, YieldOp, ZeroGradient, SGDDeeploy},
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
		{Size: 4, In: []Place{at(2), at(0)}, Out: []Place{whole}, Reduce: SumOf,
			Grain: ProductGrain, Joint: ProductGrain},
		{Size: 5, In: []Place{whole, at(1)}, Out: []Place{at(2)}},
		{Size: 3, In: []Place{at(1), whole}, Out: []Place{at(1)}, Joint: ProductGrain},
		{Size: 2, In: []Place{at(0), whole}, Out: []Place{at(0)}, Grain: 64, Joint: 64}, // of 3 rows each
	}, got)
	got = factorsOf(t, 17, "float[8, 3] given, float[5, 3] w, float[5] b", "",
		"y = Gemm <transB = 1> (given, w, b)")
	require.Equal(t, []Factor{
		{Size: 3, In: []Place{at(1), at(1), whole}, Out: []Place{whole}, Reduce: SumOf, Once: []int{2},
			Grain: ProductGrain, Joint: ProductGrain},
		{Size: 5, In: []Place{whole, at(0), at(0)}, Out: []Place{at(1)}},
		{Size: 8, In: []Place{at(0), whole, whole}, Out: []Place{at(0)}, Grain: ProductGrain, Joint: ProductGrain},
	}, got)
	// Tokens and heads: the batch is the outer part of the rows, the sequence the inner one.
	got = factorsOf(t, 17, "float[6, 20] given", "int64[4] s = {2, 3, 5, 4}", "y = Reshape(given, s)")
	require.Equal(t, []Factor{
		{Size: 2, In: []Place{{0, 1, 3}, whole}, Out: []Place{at(0)}, Grain: 1, Joint: 1},
		{Size: 3, In: []Place{{0, 2, 1}, whole}, Out: []Place{at(1)}, Grain: 1, Joint: 1},
		{Size: 5, In: []Place{{1, 1, 4}, whole}, Out: []Place{at(2)}, Grain: 1, Joint: 1},
		{Size: 4, In: []Place{{1, 5, 1}, whole}, Out: []Place{at(3)}, Grain: 1, Joint: 1},
	}, got)
	got = factorsOf(t, 17, "float[6, 4] given", "int64[2] s = {8, 3}", "y = Reshape(given, s)")
	require.Empty(t, got, "6×4 and 8×3 have no factors in common")
	got = factorsOf(t, 17, "float[2, 3, 4] given", "", "y = Transpose <perm = [2, 0, 1]> (given)")
	require.Equal(t, []Factor{
		{Size: 4, In: []Place{at(2)}, Out: []Place{at(0)}, Grain: 1, Joint: 1},
		{Size: 2, In: []Place{at(0)}, Out: []Place{at(1)}, Grain: 1, Joint: 1},
		{Size: 3, In: []Place{at(1)}, Out: []Place{at(2)}, Grain: 1, Joint: 1},
	}, got)
	got = factorsOf(t, 17, "float[7, 4] given, int64[2, 3] i", "", "y = Gather(given, i)")
	require.Equal(t, []Factor{
		{Size: 4, In: []Place{at(1), whole}, Out: []Place{at(2)}, Grain: 1, Joint: 1},
		{Size: 2, In: []Place{whole, at(0)}, Out: []Place{at(0)}, Grain: 1, Joint: 1},
		{Size: 3, In: []Place{whole, at(1)}, Out: []Place{at(1)}, Grain: 1, Joint: 1},
	}, got)
	got = factorsOf(t, 17, "float[2, 5, 3] given, int64[2, 3] labels", "",
		"y, p = SoftmaxCrossEntropyLoss <reduction = \"sum\"> (given, labels)")
	require.Equal(t, []Factor{
		{Size: 2, In: []Place{at(0), at(0)}, Out: []Place{whole, at(0)}, Reduce: SumOf},
		{Size: 3, In: []Place{at(2), at(1)}, Out: []Place{whole, at(2)}, Reduce: SumOf},
	}, got)
	// A place of dim 0 or 1 has 64 elements, or two words of bits; one of dim 2 has no whole word.
	got = factorsOf(t, 17, "float[2, 3, 64] given", "", "y, m = com.microsoft.BitmaskDropout(given)")
	require.Equal(t, []Factor{
		{Size: 2, In: []Place{at(0)}, Out: []Place{at(0), {0, 1, 6}}, Grain: 1, Joint: 1},
		{Size: 3, In: []Place{at(1)}, Out: []Place{at(1), {0, 2, 2}}, Grain: 1, Joint: 1},
	}, got)
	got = factorsOf(t, 17, "float[2, 3, 64] given, uint32[12] m", "",
		"y = com.microsoft.BitmaskDropoutGrad(given, m)")
	require.Equal(t, []Factor{
		{Size: 2, In: []Place{at(0), {0, 1, 6}}, Out: []Place{at(0)}, Grain: 1, Joint: 1},
		{Size: 3, In: []Place{at(1), {0, 2, 2}}, Out: []Place{at(1)}, Grain: 1, Joint: 1},
	}, got)
	require.Empty(t, factorsOf(t, 17, "float[2, n] given", "", "y = Relu(given)"), "a dim is not known")
	require.Empty(t, factorsOf(t, 11, "float[2, 3] given", "", "y = Squeeze(given)"))
}

// TestDrawsPerPlace: the elements of a part of a random node along a factor are those of the whole
// that its first element, its runs and their stride say, as going through all elements says.
func TestDrawsPerPlace(t *testing.T) {
	nodes := []string{"y = Dropout(given)", "y, m = Dropout(given)", "y = RandomNormalLike(given)",
		"y, m = com.microsoft.BitmaskDropout(given)",
		"y, m = com.microsoft.BiasSoftmaxDropout <axis = 2, is_inner_broadcast = 0> (given, given)"}
	strided := 0
	for _, node := range nodes {
		for _, dims := range [][]int64{{6, 4, 32}, {1, 6, 64}, {1, 1, 8}, {5, 1, 32}} {
			p := pieceOf(t, 17, fmt.Sprintf("float[%d, %d, %d] given", dims[0], dims[1], dims[2]), "", node)
			for _, f := range FactorsOf(p) {
				per, stride := DrawsPerPlace(p, &f)
				require.Positive(t, per)
				for from := range f.Size {
					size := min(2, f.Size-from)
					first, run := from*per, size*per
					if stride == 0 {
						stride = run
					} else {
						strided++
					}
					for i, at := range boxOf(dims, f.In[0].Dim, from, size) {
						k := int64(i)
						require.Equal(t, at, first+k/run*stride+k%run, "%s of %v: %+v", node, dims, f)
					}
					_, stride = DrawsPerPlace(p, &f)
				}
			}
		}
	}
	require.Positive(t, strided)
	p := pieceOf(t, 17, "float[6, 5] given", "", "y = Multinomial <sample_size = 7> (given)")
	require.Len(t, FactorsOf(p), 1)
	per, stride := DrawsPerPlace(p, &FactorsOf(p)[0])
	require.Equal(t, []int64{7, 0}, []int64{per, stride})
}

// boxOf lists the elements of an array that lie in a range of a dim, in row-major order.
func boxOf(dims []int64, dim int, from, size int64) (list []int64) {
	behind := elements(dims[dim+1:])
	for i := range elements(dims) {
		if at := i / behind % dims[dim]; at >= from && at < from+size {
			list = append(list, i)
		}
	}
	return list
}
