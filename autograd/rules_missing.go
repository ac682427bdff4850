package autograd

import "memopt/graph/op"

// Reasons that several operators share.
const (
	whyBackward = "it belongs to a backward half, which is not differentiated again"
	whyFused    = "ONNX Runtime fuses it after export; differentiate the model before it is optimized"
	whySampling = "the gradient of sampling at computed places is not supported: with ONNX's own " +
		"operators it is a scatter for every corner of every sample"
	whyDeeploy = "Deeploy writes it into graphs that have been differentiated; differentiate the model before it is " +
		"converted"
	whyRanks    = "it stands behind the backward half of a step of several ranks, which is not differentiated again"
	whyCompiled = "it is an instruction of a compiled program, which has its gradients already"
	whyCopies   = "a plan writes it into a graph that has been differentiated; differentiate the model as it was before"
	whyParts    = "memopt writes it into graphs that have been differentiated; differentiate the model as it was before"
	whyIntegers = "products of quantized integers have no rule; quantize with QuantizeLinear and " +
		"DequantizeLinear around products of floats"
	whyScales = "the scales and zero points of a quantized matrix are as the file has them"
	whyCache  = "it updates its cache in place, for inference"
)

// missingRules: operators without a rule.
var missingRules = []Row{
	{Kind: op.Constant, None: "it has no inputs"},
	{Kind: op.ConvInteger, Why: whyIntegers},
	{Kind: op.Det, Why: "it takes the inverse of a matrix, and ONNX has no operator for that"},
	{Kind: op.DynamicQuantizeLinear, Why: whyIntegers, Quantizes: true},
	{Kind: op.GroupQueryAttention, Why: whyCache},
	{Kind: op.MatMulInteger, Why: whyIntegers},
	{Kind: op.MaxUnpool, Why: "its indices may repeat, and elements that are lost then have no gradient"},
	{Kind: op.NcclAllReduce, Why: "it sums over several processes"},
	{Kind: op.QLinearConv, Why: whyIntegers, Quantizes: true},
	{Kind: op.QLinearMatMul, Why: whyIntegers, Quantizes: true},
	{Kind: op.PythonOp, Why: "its gradient is a Python function, which PyTorch's own export calls by PythonOpGrad"},
	{Kind: op.TensorScatter, Why: "it updates a cache, which training does not use"},
	{Kind: op.Unique, Why: "the number of distinct elements changes with the data"},
	{Kind: op.BatchNormalizationGrad, Why: whyBackward},
	{Kind: op.BiasFastGeluGradDX, Why: whyBackward},
	{Kind: op.BiasGeluGradDX, Why: whyBackward},
	{Kind: op.BitmaskDropoutGrad, Why: whyBackward},
	{Kind: op.BroadcastGradientArgs, Why: whyBackward},
	{Kind: op.FusedMatMulAdd, Why: whyParts},
	{Kind: op.MatMulAdd, Why: whyParts},
	{Kind: op.AllGatherStart, Why: whyRanks},
	{Kind: op.AllReduceStart, Why: whyRanks},
	{Kind: op.CollectiveWait, Why: whyRanks},
	{Kind: op.RankPiece, Why: whyRanks},
	{Kind: op.ReduceScatterStart, Why: whyRanks},
	{Kind: op.Unpack, Why: whyRanks},
	{Kind: op.Offload, Why: whyCopies},
	{Kind: op.Reload, Why: whyCopies},
	{Kind: op.Wait, Why: whyCopies},
	{Kind: op.Instruction, Why: whyCompiled},
	{Kind: op.InstructionInPlace, Why: whyCompiled},
	{Kind: op.InstructionOnce, Why: whyCompiled},
	{Kind: op.InstructionOnceInPlace, Why: whyCompiled},
	{Kind: op.ConvGrad, Why: whyBackward},
	{Kind: op.DivGrad, Why: whyBackward},
	{Kind: op.DropoutGrad, Why: whyBackward},
	{Kind: op.FastGeluGrad, Why: whyBackward},
	{Kind: op.GatherElementsGrad, Why: whyBackward},
	{Kind: op.GatherGrad, Why: whyBackward},
	{Kind: op.GatherNDGrad, Why: whyBackward},
	{Kind: op.GeluGrad, Why: whyBackward},
	{Kind: op.InPlaceAccumulator, Why: whyBackward},
	{Kind: op.InPlaceAccumulatorV2, Why: whyBackward},
	{Kind: op.InvertibleLayerNormalizationGrad, Why: whyBackward},
	{Kind: op.LayerNormalizationGrad, Why: whyBackward},
	{Kind: op.LeakyReluGrad, Why: whyBackward},
	{Kind: op.LogSoftmaxGrad, Why: whyBackward},
	{Kind: op.LogSoftmaxGrad13, Why: whyBackward},
	{Kind: op.MaxPoolGrad, Why: whyBackward},
	{Kind: op.MixedPrecisionScale, Why: whyBackward},
	{Kind: op.PythonOpGrad, Why: whyBackward},
	{Kind: op.QuickGeluGrad, Why: whyBackward},
	{Kind: op.ReduceAllL2, Why: whyBackward},
	{Kind: op.ReluGrad, Why: whyBackward},
	{Kind: op.ResizeGrad, Why: whyBackward},
	{Kind: op.SigmoidGrad, Why: whyBackward},
	{Kind: op.SimplifiedLayerNormalizationGrad, Why: whyBackward},
	{Kind: op.SliceGrad, Why: whyBackward},
	{Kind: op.SoftmaxCrossEntropyLossGrad, Why: whyBackward},
	{Kind: op.SoftmaxCrossEntropyLossInternalGrad, Why: whyBackward},
	{Kind: op.SoftmaxGrad, Why: whyBackward},
	{Kind: op.SoftmaxGrad13, Why: whyBackward},
	{Kind: op.TanhGrad, Why: whyBackward},
	{Kind: op.YieldOp, Why: whyBackward},
	{Kind: op.ZeroGradient, Why: whyBackward},
	{Kind: op.Adam4bit, Why: whyBackward},
	{Kind: op.Adam8bit, Why: whyBackward},
	{Kind: op.StochasticAdam4bit, Why: whyBackward},
	{Kind: op.StochasticAdam8bit, Why: whyBackward},
	{Kind: op.StochasticRound, Why: whyBackward},
	{Kind: op.AdamOptimizer, Why: whyBackward},
	{Kind: op.AdamWOptimizer, Why: whyBackward},
	{Kind: op.SGDOptimizerV2, Why: whyBackward},
	{Kind: op.BiasSoftmax, Why: whyFused},
	{Kind: op.BiasSoftmaxDropout, Why: whyFused},
	{Kind: op.EmbedLayerNormalization, Why: whyFused},
	{Kind: op.GroupNorm, Why: whyFused},
	{Kind: op.RotaryEmbeddingMS, Why: whyFused},
	{Kind: op.DynamicSlice, Why: whyFused},
	{Kind: op.DeformConv, Why: whySampling},
	{Kind: op.MaxRoiPool, Why: whySampling},
	{Kind: op.RoiAlign, Why: whySampling},
	{Kind: op.GeluGradDeeploy, Why: whyBackward},
	{Kind: op.GemmDeeploy, Why: whyDeeploy},
	{Kind: op.LayerNormalizationGradDeeploy, Why: whyBackward},
	{Kind: op.SGDDeeploy, Why: whyBackward},
	{Kind: op.SoftmaxCrossEntropyLossDeeploy, Why: whyDeeploy},
	{Kind: op.SoftmaxCrossEntropyLossGradDeeploy, Why: whyBackward},
}
