package kerneltest

import (
	"memopt/graph"
	"memopt/graph/op"
)

// Reasons why the cases of some operators have no outside oracle.
const (
	inTraining = "only builds of ONNX Runtime for training have it, which no registry has"
	onGPUs     = "stock ONNX Runtime has no kernel of it for processors"
	dialect    = "only Deeploy has it, as C code for microcontrollers"
	ownRanks   = "only memopt has it"
	ownDraws   = "every program draws other random numbers"
)

// oracleGroups are the operators of each set of oracles.
var oracleGroups = []struct {
	by    Oracle
	why   string
	kinds []graph.Kind
}{
	{by: Formula | NodeTests | Runtime, kinds: []graph.Kind{
		op.Abs, op.Acos, op.Acosh, op.Add, op.And, op.ArgMax, op.ArgMin, op.Asin, op.Asinh,
		op.Atan, op.Atanh, op.BitShift, op.Cast, op.CastLike, op.Ceil, op.Celu, op.Clip,
		op.Cos, op.Cosh, op.CumSum, op.Det, op.Div, op.Einsum, op.Equal, op.Erf, op.Exp,
		op.Floor, op.Gemm, op.Greater, op.GreaterOrEqual, op.HardSwish, op.IsInf, op.IsNaN,
		op.LeakyRelu, op.Less, op.LessOrEqual, op.Log, op.MatMul, op.Max, op.Mean, op.Min,
		op.Mod, op.Mul, op.Neg, op.Or, op.PRelu, op.Pow, op.Reciprocal, op.ReduceL1,
		op.ReduceL2, op.ReduceLogSum, op.ReduceLogSumExp, op.ReduceMax, op.ReduceMean,
		op.ReduceMin, op.ReduceProd, op.ReduceSum, op.ReduceSumSquare, op.Relu, op.Round,
		op.Shrink, op.Sigmoid, op.Sign, op.Sin, op.Sinh, op.Sqrt, op.Sub, op.Sum, op.Tan,
		op.Tanh, op.ThresholdedRelu, op.Where, op.Xor, op.NonZero, op.Range,
		op.ScatterElements, op.ScatterND, op.TopK, op.AveragePool, op.BatchNormalization,
		op.BlackmanWindow, op.DFT, op.MelWeightMatrix, op.STFT,
		op.Conv, op.ConvInteger, op.ConvTranspose, op.DequantizeLinear,
		op.DynamicQuantizeLinear, op.GRU, op.HammingWindow, op.HannWindow, op.Hardmax, op.LRN,
		op.LSTM, op.LayerNormalization, op.LogSoftmax, op.MatMulInteger, op.MaxPool,
		op.MeanVarianceNormalization, op.NegativeLogLikelihoodLoss, op.QLinearConv,
		op.QLinearMatMul, op.QuantizeLinear, op.RNN, op.Softmax, op.SoftmaxCrossEntropyLoss,
	}},
	{by: Formula | Runtime, kinds: []graph.Kind{
		op.BitwiseAnd, op.BitwiseNot, op.BitwiseOr, op.BitwiseXor, op.Elu, op.Gelu,
		op.HardSigmoid, op.Mish, op.Not, op.Selu, op.Softplus, op.Softsign, op.Attention,
		op.Col2Im, op.DeformConv, op.GlobalAveragePool, op.GlobalLpPool, op.GlobalMaxPool,
		op.GroupNormalization, op.InstanceNormalization, op.LpNormalization, op.LpPool,
		op.RMSNormalization, op.RotaryEmbedding, op.AttentionMS, op.BiasGelu,
		op.EmbedLayerNormalization, op.FastGelu, op.FusedConv, op.FusedGemm, op.FusedMatMul,
		op.GatherBlockQuantized, op.MatMulNBits,
		op.GeluMS, op.MultiHeadAttention, op.QuickGelu, op.RotaryEmbeddingMS,
		op.SimplifiedLayerNormalization, op.SkipLayerNormalization,
		op.SkipSimplifiedLayerNormalization,
	}},
	{by: Formula | Runtime, kinds: []graph.Kind{ // under other names
		op.BatchNormInternal, op.InPlaceAccumulator, op.ReduceSumTraining,
		op.NegativeLogLikelihoodLossInternal,
		op.SoftmaxCrossEntropyLossInternal, op.SoftmaxCrossEntropyLossDeeploy, op.Swish,
	}},
	{by: Places | Runtime, kinds: []graph.Kind{ // under other names
		op.ConcatTraining, op.DynamicSlice, op.ShrunkenGather, op.SplitTraining,
	}},
	{by: Formula | Differences, kinds: []graph.Kind{
		op.MaxPoolGrad, op.BatchNormalizationGrad, op.BiasFastGeluGradDX, op.BiasGeluGradDX, op.ConvGrad,
		op.DivGrad, op.FastGeluGrad, op.GatherElementsGrad, op.GatherGrad, op.GatherNDGrad,
		op.GeluGrad, op.InvertibleLayerNormalizationGrad, op.LayerNormalizationGrad,
		op.LeakyReluGrad, op.LogSoftmaxGrad, op.LogSoftmaxGrad13, op.QuickGeluGrad,
		op.ReluGrad, op.SigmoidGrad, op.SimplifiedLayerNormalizationGrad,
		op.SoftmaxCrossEntropyLossGrad, op.SoftmaxCrossEntropyLossInternalGrad,
		op.SoftmaxGrad, op.SoftmaxGrad13, op.TanhGrad, op.GeluGradDeeploy,
		op.LayerNormalizationGradDeeploy, op.SoftmaxCrossEntropyLossGradDeeploy,
	}},
	{by: Formula, why: inTraining, kinds: []graph.Kind{
		op.AdamOptimizer, op.BitmaskDropoutGrad, op.DropoutGrad, op.InPlaceAccumulatorV2,
		op.IsFinite, op.MixedPrecisionScale, op.ReduceAllL2, op.Scale, op.ScaledSum,
		op.ZeroGradient,
	}},
	{by: Formula | Runtime, kinds: []graph.Kind{ // as their definitions
		op.Adam4bit, op.Adam8bit, op.FusedMatMulAdd, op.MatMulAdd, op.StochasticAdam4bit, op.StochasticAdam8bit,
		op.StochasticRound,
	}},
	{by: Formula, why: onGPUs, kinds: []graph.Kind{
		op.BiasAdd, op.BiasSoftmax, op.BiasSplitGelu, op.GroupNorm, op.IsAllFinite,
	}},
	{by: Formula | Streams, why: onGPUs, kinds: []graph.Kind{
		op.BiasDropout, op.BitmaskBiasDropout, op.BitmaskDropout,
	}},
	{by: Formula, why: dialect, kinds: []graph.Kind{
		op.GemmDeeploy, op.SGDDeeploy,
	}},
	{by: Formula | Streams | NodeTests | Runtime, kinds: []graph.Kind{
		op.Dropout,
	}},
	{by: Formula | Streams, why: inTraining, kinds: []graph.Kind{
		op.BiasSoftmaxDropout,
	}},
	{by: Places | NodeTests | Runtime, kinds: []graph.Kind{
		op.Compress, op.Concat, op.Constant, op.ConstantOfShape, op.DepthToSpace, op.Expand,
		op.EyeLike, op.Flatten, op.Gather, op.GatherElements, op.GatherND, op.Identity,
		op.OneHot, op.Pad, op.Reshape, op.ReverseSequence, op.Scatter, op.Slice,
		op.SpaceToDepth, op.Split, op.Squeeze, op.Tile, op.Transpose, op.Trilu, op.Unsqueeze,
		op.MaxUnpool,
	}},
	{by: Places | Groups, why: ownRanks, kinds: []graph.Kind{op.Unpack}},
	{by: Groups, why: ownRanks, kinds: []graph.Kind{
		op.AllGatherStart, op.AllReduceStart, op.CollectiveWait, op.RankPiece, op.ReduceScatterStart,
	}},
	{by: Places, why: inTraining, kinds: []graph.Kind{
		op.FlattenAndUnpad, op.PadAndUnflatten,
	}},
	{by: Places | Runtime, kinds: []graph.Kind{
		op.CenterCropPad, op.TensorScatter, op.MemcpyFromHost, op.MemcpyToHost,
	}},
	{by: Places | Differences, kinds: []graph.Kind{
		op.SliceGrad,
	}},
	{by: Numbers | NodeTests | Runtime, kinds: []graph.Kind{
		op.Shape, op.Size, op.Unique, op.Upsample, op.NonMaxSuppression, op.RoiAlign,
	}},
	{by: Numbers | Runtime, kinds: []graph.Kind{
		op.MaxRoiPool,
	}},
	{by: Numbers, why: inTraining, kinds: []graph.Kind{
		op.BroadcastGradientArgs,
	}},
	{by: Streams, why: ownDraws, kinds: []graph.Kind{
		op.Bernoulli, op.Multinomial, op.RandomNormal, op.RandomNormalLike, op.RandomUniform,
		op.RandomUniformLike,
	}},
	{by: Torch | NodeTests | Runtime, kinds: []graph.Kind{
		op.Resize, op.GridSample,
	}},
	{by: Torch | Runtime, kinds: []graph.Kind{
		op.AffineGrid,
	}},
	{by: Torch, kinds: []graph.Kind{
		op.ATen,
	}},
	{by: Torch | Differences, kinds: []graph.Kind{
		op.ResizeGrad,
	}},
}
