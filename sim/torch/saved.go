package torch

import (
	"memopt/graph"
	"memopt/graph/op"
)

// saved says which of an elementwise operator's operands autograd keeps.
type saved uint8

const (
	nothing saved = iota
	input         // the input
	result        // the output
)

// row is PyTorch's counterpart of a graph's operator.
type row struct {
	kind  graph.Kind
	aten  string // the operator of ATen, which is the entry's name in derivatives.yaml
	saves saved  // of elementwise operators and the like
	temps int64  // how many results of intermediate operations its backward holds at once (FunctionsManual.cpp)
	run   func(k *kernel, r *row)
}

// rows has the known operators, by the names of ATen's.
var rows = []row{
	// One operand. derivatives.yaml: the tensors that the formula reads, self or result.
	{kind: op.Relu, aten: "relu", saves: result, run: unary},
	{kind: op.LeakyRelu, aten: "leaky_relu", saves: input, run: unary},
	{kind: op.Elu, aten: "elu", saves: input, run: unary},
	{kind: op.Selu, aten: "elu", saves: input, run: unary},
	{kind: op.Celu, aten: "elu", saves: input, run: unary},
	{kind: op.Clip, aten: "clamp", run: clamp},
	{kind: op.HardSigmoid, aten: "hardsigmoid", saves: input, run: unary},
	{kind: op.HardSwish, aten: "hardswish", saves: input, run: unary},
	{kind: op.Softplus, aten: "softplus", saves: input, run: unary},
	{kind: op.Mish, aten: "mish", saves: input, run: unary},
	{kind: op.Gelu, aten: "gelu", saves: input, run: unary},
	{kind: op.Sigmoid, aten: "sigmoid", saves: result, run: unary},
	{kind: op.Tanh, aten: "tanh", saves: result, run: unary},
	{kind: op.Exp, aten: "exp", saves: result, run: unary},
	{kind: op.Sqrt, aten: "sqrt", saves: result, temps: 1, run: unary},
	{kind: op.Reciprocal, aten: "reciprocal", saves: result, temps: 2, run: oneOver},
	{kind: op.Log, aten: "log", saves: input, run: unary},
	{kind: op.Erf, aten: "erf", saves: input, temps: 4, run: unary},
	{kind: op.Abs, aten: "abs", saves: input, temps: 1, run: unary},
	{kind: op.Sin, aten: "sin", saves: input, temps: 1, run: unary},
	{kind: op.Cos, aten: "cos", saves: input, temps: 1, run: unary},
	{kind: op.Neg, aten: "neg", run: unary},
	{kind: op.PRelu, aten: "prelu", run: prelu},
	{kind: op.Softmax, aten: "_softmax", saves: result, run: unary},
	{kind: op.LogSoftmax, aten: "_log_softmax", saves: result, run: unary},

	// Two or three operands, broadcast.
	{kind: op.Add, aten: "add", run: sum},
	{kind: op.Sub, aten: "sub", run: sum},
	{kind: op.Mul, aten: "mul", run: product},
	{kind: op.Div, aten: "div", run: quotient},
	{kind: op.Pow, aten: "pow", run: power},
	{kind: op.Max, aten: "maximum", run: extreme},
	{kind: op.Min, aten: "minimum", run: extreme},
	{kind: op.Where, aten: "where", run: where},

	// Products of matrices and convolutions.
	{kind: op.MatMul, aten: "matmul", run: matmul},
	{kind: op.Gemm, aten: "addmm", run: gemm},
	{kind: op.Conv, aten: "convolution", run: convolution},
	{kind: op.ConvTranspose, aten: "convolution", run: transposedConvolution},

	// Norms, dropout, pools, losses.
	{kind: op.BatchNormalization, aten: "native_batch_norm", run: batchNorm},
	{kind: op.InstanceNormalization, aten: "native_batch_norm", run: instanceNorm},
	{kind: op.LayerNormalization, aten: "native_layer_norm", run: layerNorm},
	{kind: op.Dropout, aten: "dropout", run: dropout},
	{kind: op.MaxPool, aten: "max_pool2d_with_indices", run: maxPool},
	{kind: op.AveragePool, aten: "avg_pool2d", run: averagePool},
	{kind: op.GlobalAveragePool, aten: "mean", run: mean},
	{kind: op.SoftmaxCrossEntropyLoss, aten: "cross_entropy", run: crossEntropy},
	{kind: op.NegativeLogLikelihoodLoss, aten: "nll_loss", run: likelihood},

	// Reductions.
	{kind: op.ReduceMean, aten: "mean", run: mean},
	{kind: op.ReduceSum, aten: "sum", run: total},
	{kind: op.ReduceL2, aten: "linalg_vector_norm", run: norm},
	{kind: op.ReduceMax, aten: "amax", run: extremeAlong},
	{kind: op.ReduceMin, aten: "amin", run: extremeAlong},
	{kind: op.CumSum, aten: "cumsum", run: unary},

	// Views.
	{kind: op.Transpose, aten: "permute", run: permute},
	{kind: op.Reshape, aten: "reshape", run: reshape},
	{kind: op.Flatten, aten: "reshape", run: reshape},
	{kind: op.Squeeze, aten: "squeeze", run: reshape},
	{kind: op.Unsqueeze, aten: "unsqueeze", run: reshape},
	{kind: op.Expand, aten: "expand", run: expand},
	{kind: op.Split, aten: "split", run: split},
	{kind: op.Slice, aten: "slice", run: slice},
	{kind: op.Identity, aten: "alias", run: alias},
	{kind: op.Cast, aten: "_to_copy", run: cast},
	{kind: op.CastLike, aten: "_to_copy", run: cast},

	// Moves.
	{kind: op.Concat, aten: "cat", run: concat},
	{kind: op.Gather, aten: "index_select", run: gather},
	{kind: op.GatherElements, aten: "gather", run: pick},
	{kind: op.GatherND, aten: "index", run: pick},
	{kind: op.Resize, aten: "upsample", run: plainUnary},
	{kind: op.Pad, aten: "constant_pad_nd", run: plainUnary},
	{kind: op.Tile, aten: "repeat", run: plainUnary},
	{kind: op.DepthToSpace, aten: "pixel_shuffle", run: plainUnary},
	{kind: op.SpaceToDepth, aten: "pixel_unshuffle", run: plainUnary},
	{kind: op.Trilu, aten: "tril", run: plainUnary},
	{kind: op.ScatterElements, aten: "scatter", run: scatter},
	{kind: op.ScatterND, aten: "index_put", run: scatter},
}

// undifferentiated have no gradients: masks, counts, indices, random numbers.
var undifferentiated = []graph.Kind{
	op.Equal, op.Greater, op.GreaterOrEqual, op.Less, op.LessOrEqual, op.And, op.Or, op.Xor, op.Not, op.Range,
	op.ConstantOfShape, op.Constant, op.Shape, op.Size, op.ArgMax, op.ArgMin, op.OneHot, op.Floor, op.Ceil, op.Round,
	op.Sign, op.Mod, op.NonZero, op.IsNaN, op.IsInf, op.EyeLike, op.RandomNormal, op.RandomNormalLike, op.RandomUniform,
	op.RandomUniformLike, op.Bernoulli,
}

// tableOf has the rows by kind; the zero row is that of an operator that is not known.
var tableOf = func() (t [op.NumKinds]row) {
	for _, r := range rows {
		t[r.kind] = r
	}
	for _, kind := range undifferentiated {
		t[kind] = row{kind: kind, aten: op.Of(kind).Name, run: plain}
	}
	return t
}()
