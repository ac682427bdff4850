package cuda

import "memopt/graph/op"

// reduceRows: reductions, softmaxes, norms and losses, and their gradients.
var reduceRows = []Row{
	{Kind: op.BatchNormInternal, New: newBatchNormInternal},
	{Kind: op.BatchNormalization, New: newBatchNorm},
	{Kind: op.BatchNormalizationGrad, New: newBatchNormGrad},
	{Kind: op.InvertibleLayerNormalizationGrad, New: layerNormGrad(normInvertible)},
	{Kind: op.LayerNormalization, New: layerNorm(false)},
	{Kind: op.LayerNormalizationGrad, New: layerNormGrad(normPlain)},
	{Kind: op.LogSoftmax, New: softmax("logsoftmax", false, false)},
	{Kind: op.LogSoftmaxGrad, New: softmax("logsoftmaxgrad", true, true)},
	{Kind: op.LogSoftmaxGrad13, New: softmax("logsoftmaxgrad", true, false)},
	{Kind: op.NegativeLogLikelihoodLoss, New: loss(true, -1), HostInputs: []int{1}},
	{Kind: op.RMSNormalization, New: layerNorm(true)},
	{Kind: op.ReduceL1, New: reduction(foldSize, 18), HostInputs: []int{1}},
	{Kind: op.ReduceL2, New: reduction(foldNorm, 18), HostInputs: []int{1}},
	{Kind: op.ReduceLogSum, New: reduction(foldLog, 18), HostInputs: []int{1}},
	{Kind: op.ReduceLogSumExp, New: reduction(foldLogSumExp, 18), HostInputs: []int{1}},
	{Kind: op.ReduceMax, New: reduction(foldMax, 18), HostInputs: []int{1}},
	{Kind: op.ReduceMean, New: reduction(foldMean, 18), HostInputs: []int{1}},
	{Kind: op.ReduceMin, New: reduction(foldMin, 18), HostInputs: []int{1}},
	{Kind: op.ReduceProd, New: reduction(foldProd, 18), HostInputs: []int{1}},
	{Kind: op.ReduceSum, New: reduction(foldSum, 13), HostInputs: []int{1}},
	{Kind: op.ReduceSumSquare, New: reduction(foldSquare, 18), HostInputs: []int{1}},
	{Kind: op.ReduceSumTraining, New: reduction(foldSum, 1), HostInputs: []int{1}},
	{Kind: op.SimplifiedLayerNormalization, New: layerNorm(true)},
	{Kind: op.SimplifiedLayerNormalizationGrad, New: layerNormGrad(normSimplified)},
	{Kind: op.Softmax, New: softmax("softmax", false, false)},
	{Kind: op.SoftmaxCrossEntropyLoss, New: loss(false, -1), HostInputs: []int{1}},
	{Kind: op.SoftmaxCrossEntropyLossGrad, New: lossGrad(-1, 4), HostInputs: []int{2}},
	{Kind: op.SoftmaxCrossEntropyLossInternal, New: loss(false, 3), HostInputs: []int{1, 3}},
	{Kind: op.SoftmaxCrossEntropyLossInternalGrad, New: lossGrad(4, 5), HostInputs: []int{2, 4}},
	{Kind: op.SoftmaxGrad, New: softmax("softmaxgrad", true, true)},
	{Kind: op.SoftmaxGrad13, New: softmax("softmaxgrad", true, false)},
}
