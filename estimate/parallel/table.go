package parallel

import (
	"memopt/graph"
	"memopt/graph/op"
)

// rule divides the outputs of a node as its inputs are divided.
type rule func(v *visit) error

// rules has the rule of every operator that is not elementwise along the axes that its operands
// have in common, as these are counted from the last (aligned).
var rules = func() (t [op.NumKinds]rule) {
	for r, kinds := range map[string][]graph.Kind{
		"product":  {op.MatMul, op.Gemm, op.FusedMatMul, op.FusedGemm},
		"permuted": {op.Transpose},
		"reshaped": {op.Reshape, op.Flatten, op.Squeeze, op.Unsqueeze},
		"reduced": {op.ReduceL1, op.ReduceL2, op.ReduceLogSum, op.ReduceLogSumExp, op.ReduceMax, op.ReduceMean,
			op.ReduceMin, op.ReduceProd, op.ReduceSum, op.ReduceSumSquare, op.ReduceSumTraining, op.ArgMax, op.ArgMin},
		"mixed": {op.Softmax, op.Hardmax, op.LpNormalization, op.TopK, op.CumSum, op.SoftmaxGrad, op.SoftmaxGrad13,
			op.BiasSoftmax, op.BiasSoftmaxDropout},
		"classes": {op.LogSoftmax, op.LogSoftmaxGrad, op.LogSoftmaxGrad13},
		"normalised": {op.LayerNormalization, op.RMSNormalization, op.SimplifiedLayerNormalization,
			op.SkipLayerNormalization, op.SkipSimplifiedLayerNormalization, op.LayerNormalizationGrad,
			op.SimplifiedLayerNormalizationGrad, op.InvertibleLayerNormalizationGrad},
		"gathered": {op.Gather},
		"picked":   {op.GatherElements, op.GatherND, op.ShrunkenGather},
		"first": {op.ScatterElements, op.ScatterND, op.Scatter, op.TensorScatter, op.Pad, op.Slice, op.Dropout,
			op.DropoutGrad, op.Tile, op.Trilu, op.InPlaceAccumulator, op.InPlaceAccumulatorV2, op.SliceGrad},
		"along": {op.Split, op.SplitTraining, op.Concat, op.ConcatTraining},
		"loss":  {op.SoftmaxCrossEntropyLoss, op.SoftmaxCrossEntropyLossInternal, op.NegativeLogLikelihoodLoss},
		"made": {op.ConstantOfShape, op.OneHot, op.Range, op.EyeLike, op.GatherGrad, op.RandomNormal,
			op.RandomUniform},
	} {
		for _, k := range kinds {
			t[k] = byName[r]
		}
	}
	return t
}()

var byName = map[string]rule{"product": product, "permuted": permuted, "reshaped": reshaped, "reduced": reduced,
	"mixed": mixed, "classes": classes, "normalised": normalised, "gathered": gathered, "picked": picked,
	"first": first, "along": along, "loss": loss, "made": made}

// ruleOf returns the rule of an operator.
func ruleOf(k graph.Kind) rule {
	if r := rules[k]; r != nil {
		return r
	}
	return aligned
}

// isGather reports whether an operator looks up rows of a table.
func isGather(k graph.Kind) bool { return gathers[k] }

// makers can make a part of what they make.
var makers = [op.NumKinds]bool{op.ConstantOfShape: true, op.OneHot: true, op.EyeLike: true, op.GatherGrad: true,
	op.RandomNormal: true, op.RandomUniform: true, op.Expand: true}

var gathers = [op.NumKinds]bool{op.Gather: true}

// adders add up their inputs, whatever their number.
var adders = [op.NumKinds]bool{op.Add: true, op.Sum: true}
