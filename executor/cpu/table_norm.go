package cpu

import "memopt/graph/op"

// normRows: softmaxes, norms and losses, and their gradients.
var normRows = append(requiring([]Row{
	{Kind: op.BatchNormInternal, New: newBatchNormInternal},
	{Kind: op.BatchNormalization, New: newBatchNorm},
	{Kind: op.BatchNormalizationGrad, New: newBatchNormGrad},
	{Kind: op.BiasSoftmax, New: widened(newBiasSoftmax)},
	{Kind: op.GroupNorm, New: widened(newLastGroupNorm)},
	{Kind: op.GroupNormalization, New: newGroupNorm},
	{Kind: op.Hardmax, New: widened(newHardmax)},
	{Kind: op.InstanceNormalization, New: newInstanceNorm},
	{Kind: op.InvertibleLayerNormalizationGrad, New: newLayerNormGrad(layerNormInvertible)},
	{Kind: op.LRN, New: widened(newLRN)},
	{Kind: op.LayerNormalization, New: newLayerNorm(false)},
	{Kind: op.LayerNormalizationGrad, New: newLayerNormGrad(layerNormPlain)},
	{Kind: op.LogSoftmax, New: newSoftmax(true)},
	{Kind: op.LogSoftmaxGrad, New: newSoftmaxGrad(true, true)},
	{Kind: op.LogSoftmaxGrad13, New: newSoftmaxGrad(true, false)},
	{Kind: op.LpNormalization, New: widened(newLpNormalization)},
	{Kind: op.MeanVarianceNormalization, New: newMeanVariance},
	{Kind: op.NegativeLogLikelihoodLoss, New: newLoss(true, -1)},
	{Kind: op.NegativeLogLikelihoodLossInternal, New: newLoss(true, 3)},
	{Kind: op.RMSNormalization, New: newLayerNorm(true)},
	{Kind: op.SimplifiedLayerNormalization, New: newLayerNorm(true)},
	{Kind: op.SimplifiedLayerNormalizationGrad, New: newLayerNormGrad(layerNormSimplified)},
	{Kind: op.SkipLayerNormalization, New: newSkipNorm(false)},
	{Kind: op.SkipSimplifiedLayerNormalization, New: newSkipNorm(true)},
	{Kind: op.Softmax, New: newSoftmax(false)},
	{Kind: op.SoftmaxCrossEntropyLoss, New: newLoss(false, -1)},
	{Kind: op.SoftmaxCrossEntropyLossGrad, New: newLossGrad(-1, 4)},
	{Kind: op.SoftmaxCrossEntropyLossInternal, New: newLoss(false, 3)},
	{Kind: op.SoftmaxCrossEntropyLossInternalGrad, New: newLossGrad(4, 5)},
	{Kind: op.SoftmaxGrad, New: newSoftmaxGrad(false, true)},
	{Kind: op.SoftmaxGrad13, New: newSoftmaxGrad(false, false)},
}), Row{Kind: op.EmbedLayerNormalization, New: widened(newEmbedNorm)})
