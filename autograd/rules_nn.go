package autograd

import "memopt/graph/op"

// nnRules: convolutions, pools, norms, softmaxes and losses.
var nnRules = []Row{
	{Kind: op.AveragePool, Rule: averagePoolRule},
	{Kind: op.BatchNormalization, Rule: batchNormalizationRule},
	{Kind: op.Col2Im, Rule: col2ImRule},
	{Kind: op.Conv, Rule: convRule},
	{Kind: op.ConvTranspose, Rule: convTransposeRule},
	{Kind: op.Dropout, Rule: dropoutRule},
	{Kind: op.FusedConv, Rule: fusedConvRule},
	{Kind: op.GlobalAveragePool, Rule: globalAveragePoolRule},
	{Kind: op.GlobalLpPool, Rule: globalLpPoolRule},
	{Kind: op.GlobalMaxPool, Rule: globalMaxPoolRule},
	{Kind: op.GroupNormalization, Rule: groupNormalizationRule},
	{Kind: op.InstanceNormalization, Rule: instanceNormalizationRule},
	{Kind: op.LRN, Rule: lrnRule},
	{Kind: op.LayerNormalization, Rule: layerNormalizationRule},
	{Kind: op.LogSoftmax, Rule: logSoftmaxRule},
	{Kind: op.LpNormalization, Rule: lpNormalizationRule},
	{Kind: op.LpPool, Rule: lpPoolRule},
	{Kind: op.MaxPool, Rule: maxPoolRule},
	{Kind: op.MeanVarianceNormalization, Rule: meanVarianceNormalizationRule},
	{Kind: op.NegativeLogLikelihoodLoss, Rule: negativeLogLikelihoodLossRule},
	{Kind: op.RMSNormalization, Rule: rmsNormalizationRule},
	{Kind: op.Resize, Rule: resizeRule},
	{Kind: op.SimplifiedLayerNormalization, Rule: simplifiedLayerNormalizationRule},
	{Kind: op.SkipLayerNormalization, Expand: expandSkipLayerNormalization},
	{Kind: op.SkipSimplifiedLayerNormalization, Expand: expandSkipSimplified},
	{Kind: op.Softmax, Rule: softmaxRule},
	{Kind: op.SoftmaxCrossEntropyLoss, Rule: softmaxCrossEntropyLossRule},
	{Kind: op.Upsample, Rule: resizeRule},
}
