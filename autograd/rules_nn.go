package autograd

import "memopt/graph/op"

// Why operators of this family have no gradient.
const (
	ofIntegers = "it computes with quantized numbers"
	ofSize     = "its operand is a size"
)

// nnRules: convolutions, pools, norms, softmaxes and losses.
var nnRules = []Row{
	{Kind: op.AveragePool, Rule: averagePoolRule},
	{Kind: op.BatchNormalization, Rule: batchNormalizationRule},
	{Kind: op.BiasDropout, Expand: expandBiasDropout},
	{Kind: op.BitmaskBiasDropout, Expand: expandBitmaskBiasDropout},
	{Kind: op.BitmaskDropout, Expand: expandBitmaskDropout},
	{Kind: op.BlackmanWindow, None: ofSize},
	{Kind: op.Col2Im, Rule: col2ImRule},
	{Kind: op.Conv, Rule: convRule},
	{Kind: op.ConvInteger, None: ofIntegers},
	{Kind: op.ConvTranspose, Rule: convTransposeRule},
	{Kind: op.Dropout, Rule: dropoutRule, Same: (*Ctx).dropsNothing},
	{Kind: op.FusedConv, Rule: fusedConvRule},
	{Kind: op.GlobalAveragePool, Rule: globalAveragePoolRule},
	{Kind: op.GlobalLpPool, Rule: globalLpPoolRule},
	{Kind: op.GlobalMaxPool, Rule: globalMaxPoolRule},
	{Kind: op.GroupNormalization, Rule: groupNormalizationRule},
	{Kind: op.HammingWindow, None: ofSize},
	{Kind: op.HannWindow, None: ofSize},
	{Kind: op.InstanceNormalization, Rule: instanceNormalizationRule},
	{Kind: op.LRN, Rule: lrnRule},
	{Kind: op.LayerNormalization, Rule: layerNormalizationRule},
	{Kind: op.LogSoftmax, Rule: logSoftmaxRule},
	{Kind: op.LpNormalization, Rule: lpNormalizationRule},
	{Kind: op.LpPool, Rule: lpPoolRule},
	{Kind: op.MaxPool, Rule: maxPoolRule},
	{Kind: op.MeanVarianceNormalization, Rule: meanVarianceNormalizationRule},
	{Kind: op.NegativeLogLikelihoodLoss, Rule: negativeLogLikelihoodLossRule},
	{Kind: op.NonMaxSuppression, None: "it chooses boxes and gives their numbers"},
	{Kind: op.QLinearConv, None: ofIntegers},
	{Kind: op.QuantizeLinear, None: "it rounds to integers"},
	{Kind: op.RMSNormalization, Rule: rmsNormalizationRule},
	{Kind: op.Resize, Rule: resizeRule},
	{Kind: op.SimplifiedLayerNormalization, Rule: simplifiedLayerNormalizationRule},
	{Kind: op.SkipLayerNormalization, Expand: expandSkipLayerNormalization},
	{Kind: op.SkipSimplifiedLayerNormalization, Expand: expandSkipSimplified},
	{Kind: op.Softmax, Rule: softmaxRule},
	{Kind: op.SoftmaxCrossEntropyLoss, Rule: softmaxCrossEntropyLossRule},
	{Kind: op.Upsample, Rule: resizeRule},
}
