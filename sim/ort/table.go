package ort

import (
	"memopt/graph"
	"memopt/graph/op"
)

// row describes how stock ONNX Runtime treats the nodes of an operator: the CPU kernels of release
// 1.30, measured by an allocator that logs, and the conditions of its optimizations.
type row struct {
	kind graph.Kind
	// inPlace lists the inputs that output 0 is written into. The kernels' definitions name the
	// candidates (KernelDefBuilder::MayInplace); the runtime accepts fewer than memopt's own
	// kernels: only those of activations, softmax and a few copies, not of arithmetic.
	inPlace []int
	// overwrites lists further inputs that output 0 may overwrite, element by element, if a caller
	// binds the output to the input's memory. Its operators are arithmetic: no fusion has only such
	// nodes.
	overwrites []int
	// neutral reports whether an operand leaves the other one of two as it is, so that the node may
	// be taken out (NoopElimination in optimizer/noop_elimination.cc). Nil means that no operand
	// does.
	neutral func(g *graph.Graph, v graph.ValueID) bool
	// resizes says that the node may be taken out if its result is as large as its first input.
	resizes bool
	// readThrough says that readers of output 0 may come to read an input instead: products read
	// through a Transpose, and slices through a Concat.
	readThrough bool
	// workspace returns the blocks that the kernel holds at once besides its operands. Nil means
	// that it needs no workspace.
	workspace func(k *kernels, n *graph.Node) []int64
	// spares says that one of three such blocks is not needed if input 0 has no later reader: the
	// kernel writes over it.
	spares bool
	// describe notes the facts of a node that fusions ask for. Nil means that no fusion asks for
	// any.
	describe func(g *graph.Graph, n *graph.Node, f *nodeFacts)
	// copies says that output 0 is input 0, so that the node is taken out.
	copies bool
	// gemm says that the node can absorb the Add of a row and Transposes of its operands (Gemm).
	gemm bool
	// activated says that an activation after the node becomes part of it.
	activated bool
	// activation says that the operator is such an activation.
	activation bool
	// expands says that the function body runs in the operator's place: the CPU has no kernel for
	// it. Its nodes are numbered after all others.
	expands bool
	// drops says that outputs after the first are freed if they have no readers.
	drops bool
	// losesDims reports whether some dims of a node's outputs come from arithmetic, which the
	// runtime's shape inference does not do. Nil means that they do not.
	losesDims func(g *graph.Graph, n *graph.Node) bool
	// told says which inputs determine the shapes of a node's outputs. 0 means all.
	told told
}

// told says which inputs shapes follow from.
type told uint8

const (
	byAll   told = iota // shapes follow from all inputs
	byFirst             // from the first and from a shape operand, which is known or not
	byShape             // from a shape operand alone
)

var (
	first       = []int{0}
	firstTwo    = []int{0, 1}
	secondThird = []int{1, 2}
)

// rows has the operators with measured behaviour. All others are in plain or unmeasured.
var rows = []row{
	{kind: op.Relu, inPlace: first, activation: true},
	{kind: op.Sigmoid, inPlace: first, activation: true},
	{kind: op.Tanh, inPlace: first, activation: true},
	{kind: op.LeakyRelu, inPlace: first, activation: true},
	{kind: op.HardSigmoid, inPlace: first, activation: true},
	{kind: op.Elu, inPlace: first},
	{kind: op.Selu, inPlace: first},
	{kind: op.Softplus, inPlace: first},
	{kind: op.Softsign, inPlace: first},
	{kind: op.ThresholdedRelu, inPlace: first},
	{kind: op.Clip, inPlace: first},
	{kind: op.Not, inPlace: first},
	{kind: op.Identity, inPlace: first, copies: true},
	{kind: op.Trilu, inPlace: first},
	{kind: op.ScatterElements, inPlace: first},
	{kind: op.ScatterND, inPlace: first},
	{kind: op.Softmax, inPlace: first, workspace: (*kernels).softmax},
	{kind: op.LogSoftmax, inPlace: first, workspace: (*kernels).softmax},

	{kind: op.Where, workspace: (*kernels).where, overwrites: secondThird},
	{kind: op.SoftmaxCrossEntropyLoss, workspace: (*kernels).crossEntropy, expands: true, spares: true},
	{kind: op.NegativeLogLikelihoodLoss, workspace: (*kernels).likelihood, expands: true},
	{kind: op.Conv, workspace: (*kernels).conv, activated: true},
	{kind: op.ConvTranspose, workspace: (*kernels).convTranspose},
	{kind: op.GRU, workspace: (*kernels).gru},
	{kind: op.LSTM, workspace: (*kernels).lstm},
	{kind: op.Loop, workspace: (*kernels).loop},

	// These kernels are in the training build, 1.19.2.
	{kind: op.LayerNormalizationGrad, workspace: (*kernels).normGrad},
	{kind: op.SimplifiedLayerNormalizationGrad, workspace: (*kernels).normGrad},

	{kind: op.FusedMatMulAdd, workspace: (*kernels).product, expands: true},
	{kind: op.MatMulAdd, workspace: (*kernels).product, expands: true},
	{kind: op.MatMul, describe: describeMatMul},
	{kind: op.Gemm, gemm: true, activated: true},
	{kind: op.Transpose, describe: describeTranspose, readThrough: true},
	{kind: op.Mul, describe: describeMul, overwrites: firstTwo, neutral: isOne},
	{kind: op.Div, describe: describeDiv, overwrites: firstTwo, neutral: isOne},
	{kind: op.Add, describe: describeAdd, overwrites: firstTwo, neutral: isZero},
	{kind: op.Sub, overwrites: firstTwo, neutral: isZero},
	{kind: op.Sqrt, overwrites: first},
	{kind: op.Neg, overwrites: first},
	{kind: op.Reciprocal, overwrites: first},
	{kind: op.Shape, describe: describeShape},
	// Whether a Dropout is a copy depends on the readers of its mask: see Eliminated.
	{kind: op.Dropout},

	{kind: op.Split, drops: true},
	// The running statistics of BatchNormalization lie in its inputs.
	{kind: op.BatchNormalization, drops: true},

	{kind: op.Range, losesDims: computes},
	{kind: op.Concat, losesDims: addsUp, readThrough: true},
	{kind: op.Reshape, losesDims: readsShape, told: byFirst, describe: describeReshape},
	{kind: op.Unsqueeze, losesDims: readsAxes, told: byFirst, describe: describeView},
	{kind: op.Squeeze, losesDims: readsAxes, told: byFirst, describe: describeView},
	{kind: op.Expand, told: byShape, resizes: true},
	{kind: op.Cast, resizes: true, readThrough: true},
	{kind: op.Slice, resizes: true},
	{kind: op.Pad, resizes: true},
	{kind: op.Tile, resizes: true},
	{kind: op.ConstantOfShape, told: byShape},
}

// plain has the operators of ONNX whose kernels give every output a buffer of its own and need no
// other memory that counts, and that no optimization simulated here looks for.
var plain = []graph.Kind{
	op.Abs, op.Acos, op.Acosh, op.And, op.ArgMax, op.ArgMin, op.Asin, op.Asinh, op.Atan, op.Atanh,
	op.BitShift, op.BitwiseAnd, op.BitwiseNot, op.BitwiseOr, op.BitwiseXor, op.CastLike,
	op.Ceil, op.Celu, op.Cos, op.Cosh, op.CumSum, op.Det, op.Einsum, op.Equal, op.Erf, op.Exp,
	op.Floor, op.Gelu, op.Greater, op.GreaterOrEqual, op.HardSwish, op.IsInf, op.IsNaN, op.Less,
	op.LessOrEqual, op.Log, op.Max, op.Mean, op.Min, op.Mish, op.Mod, op.Or, op.PRelu,
	op.Pow, op.ReduceL1, op.ReduceL2, op.ReduceLogSum, op.ReduceLogSumExp,
	op.ReduceMax, op.ReduceMean, op.ReduceMin, op.ReduceProd, op.ReduceSum, op.ReduceSumSquare,
	op.Round, op.Shrink, op.Sign, op.Sin, op.Sinh, op.Sum, op.Swish, op.Tan,
	op.Xor, op.Bernoulli, op.CenterCropPad, op.Compress, op.Constant, op.DepthToSpace, op.EyeLike,
	op.Flatten, op.Gather, op.GatherElements, op.GatherND, op.Multinomial, op.NonZero, op.OneHot,
	op.RandomNormal, op.RandomNormalLike, op.RandomUniform, op.RandomUniformLike,
	op.Resize, op.ReverseSequence, op.Scatter, op.Size, op.SpaceToDepth,
	op.TensorScatter, op.TopK, op.Unique, op.Upsample, op.AffineGrid,
	op.Attention, op.AveragePool, op.BlackmanWindow, op.Col2Im, op.ConvInteger, op.DeformConv,
	op.DequantizeLinear, op.DynamicQuantizeLinear, op.GlobalAveragePool, op.GlobalLpPool,
	op.GlobalMaxPool, op.GridSample, op.GroupNormalization, op.HammingWindow, op.HannWindow,
	op.DFT, op.MelWeightMatrix, op.STFT,
	op.Hardmax, op.InstanceNormalization, op.LRN, op.LayerNormalization, op.LpNormalization,
	op.LpPool, op.MatMulInteger, op.MaxPool, op.MaxRoiPool, op.MaxUnpool,
	op.MeanVarianceNormalization, op.NonMaxSuppression, op.QLinearConv, op.QLinearMatMul,
	op.QuantizeLinear, op.RMSNormalization, op.RNN, op.RoiAlign, op.RotaryEmbedding,
	op.ConcatFromSequence, op.If, op.Optional, op.OptionalGetElement,
	op.OptionalHasElement, op.Scan, op.SequenceAt, op.SequenceConstruct, op.SequenceEmpty,
	op.SequenceErase, op.SequenceInsert, op.SequenceLength, op.SplitToSequence,
}

// unmeasured has ONNX Runtime's own operators and those of tools; most of them only its training
// build or its GPU kernels know. They are simulated as plain ones.
var unmeasured = []graph.Kind{
	op.AllGatherStart, op.AllReduceStart, op.CollectiveWait, op.RankPiece, op.ReduceScatterStart, op.Unpack,
	op.Offload, op.Reload, op.Wait,
	op.Instruction, op.InstructionInPlace, op.InstructionOnce, op.InstructionOnceInPlace,
	op.Adam4bit, op.Adam8bit, op.StochasticAdam4bit, op.StochasticAdam8bit, op.StochasticRound,
	op.ATen, op.AdamOptimizer, op.AttentionMS, op.BatchNormInternal, op.BatchNormalizationGrad,
	op.BiasAdd, op.BiasDropout, op.BiasFastGeluGradDX, op.BiasGelu, op.BiasGeluGradDX,
	op.BiasSoftmax, op.BiasSoftmaxDropout, op.BiasSplitGelu, op.BitmaskBiasDropout,
	op.BitmaskDropout, op.BitmaskDropoutGrad, op.BroadcastGradientArgs, op.ConcatTraining,
	op.ConvGrad, op.DivGrad, op.DropoutGrad, op.DynamicSlice, op.EmbedLayerNormalization,
	op.FastGelu, op.FastGeluGrad, op.FlattenAndUnpad, op.FusedConv, op.FusedGemm, op.FusedMatMul,
	op.GatherBlockQuantized, op.GatherElementsGrad, op.GatherGrad, op.GatherNDGrad, op.GeluGrad, op.GeluMS,
	op.GroupNorm, op.MatMulNBits,
	op.GroupQueryAttention, op.InPlaceAccumulator, op.InPlaceAccumulatorV2,
	op.InvertibleLayerNormalizationGrad, op.IsAllFinite, op.IsFinite,
	op.LeakyReluGrad, op.LogSoftmaxGrad, op.LogSoftmaxGrad13, op.MaxPoolGrad, op.MemcpyFromHost,
	op.MemcpyToHost, op.MixedPrecisionScale, op.MultiHeadAttention, op.NcclAllReduce,
	op.NegativeLogLikelihoodLossInternal,
	op.PadAndUnflatten, op.PythonOp, op.PythonOpGrad, op.QuickGelu, op.QuickGeluGrad,
	op.ReduceAllL2, op.ReduceSumTraining, op.ReluGrad, op.ResizeGrad, op.RotaryEmbeddingMS,
	op.SGDOptimizerV2, op.Scale, op.ScaledSum, op.ShrunkenGather, op.SigmoidGrad,
	op.SimplifiedLayerNormalization,
	op.SkipLayerNormalization, op.SkipSimplifiedLayerNormalization, op.SliceGrad,
	op.SoftmaxCrossEntropyLossGrad, op.SoftmaxCrossEntropyLossInternal,
	op.SoftmaxCrossEntropyLossInternalGrad, op.SoftmaxGrad, op.SoftmaxGrad13, op.SplitTraining,
	op.TanhGrad, op.YieldOp, op.ZeroGradient, op.AdamWOptimizer, op.GeluGradDeeploy,
	op.GemmDeeploy, op.LayerNormalizationGradDeeploy, op.SGDDeeploy,
	op.SoftmaxCrossEntropyLossDeeploy, op.SoftmaxCrossEntropyLossGradDeeploy,
}

// table has the rows by kind; the zero row is that of a plain operator.
var table = func() (t [op.NumKinds]row) {
	for _, r := range rows {
		t[r.kind] = r
	}
	return t
}()

// MergesIntoGemm reports whether ONNX Runtime may turn a product of matrices and the one node that
// reads it into one Gemm, which rounds differently (MatMulAddFusion in matmul_add_fusion.cc).
func MergesIntoGemm(product, reader graph.Kind) bool {
	return product == op.MatMul && reader == op.Add
}

// Shows reports whether an operator shows the elements of its first input in other dims, and is a
// node in ONNX Runtime as well.
func Shows(k graph.Kind) bool { return op.Of(k).View && !table[k].copies }

// Copies reports whether an operator's only output is its input, so that ONNX Runtime takes it out.
func Copies(k graph.Kind) bool { return table[k].copies }

// InPlace lists the inputs of an operator whose buffers its first output takes over in a session, where they die
// with it and are of its shape.
func InPlace(k graph.Kind) []int { return table[k].inPlace }

// Overwrites lists the inputs of an operator that its first output may overwrite, element by
// element, if they are of the same shape and a caller gives the output an input's memory. An Add,
// for example, may write over either input.
func Overwrites(k graph.Kind) []int {
	if o := table[k].overwrites; o != nil {
		return o
	}
	return table[k].inPlace
}
