package autograd

import "memopt/graph/op"

// nnRules: convolutions, pools, norms, softmaxes and losses.
var nnRules = []Row{
	{Kind: op.AveragePool, Rule: averagePoolRule},
	{Kind: op.BatchNormalization, Rule: batchNormalizationRule},
	{Kind: op.Conv, Rule: convRule},
	{Kind: op.ConvTranspose, Rule: convTransposeRule},
	{Kind: op.Dropout, Rule: dropoutRule},
	{Kind: op.FusedConv, Rule: fusedConvRule},
	{Kind: op.GlobalAveragePool, Rule: globalAveragePoolRule},
	{Kind: op.LayerNormalization, Rule: layerNormalizationRule},
	{Kind: op.LogSoftmax, Rule: logSoftmaxRule},
	{Kind: op.MaxPool, Rule: maxPoolRule},
	{Kind: op.NegativeLogLikelihoodLoss, Rule: negativeLogLikelihoodLossRule},
	{Kind: op.Softmax, Rule: softmaxRule},
	{Kind: op.SoftmaxCrossEntropyLoss, Rule: softmaxCrossEntropyLossRule},
	{Kind: op.SoftmaxCrossEntropyLossInternal, Rule: lossInternalRule},
}
