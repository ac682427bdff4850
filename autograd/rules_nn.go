package autograd

import "memopt/graph/op"

// Why operators of this family have no gradient.
const (
	ofSize = "its operand is a size"
)

// resizeOperands: scales, and behind the regions of crops, which are scales before operator set 11.
var resizeOperands = []Operand{
	{Slot: 1, Why: whyPlaces, Setting: true},
	{Slot: 2, Why: whyPlaces, Setting: true},
}

// whyPlaces is why the gradients of scales and regions of a Resize are not made.
const whyPlaces = "it moves the places between which elements are interpolated, and its rule has the elements only"

// nnRules: convolutions, pools, norms, softmaxes and losses.
var nnRules = []Row{
	{Kind: op.AffineGrid, Rule: affineGridRule},
	{Kind: op.AveragePool, Rule: averagePoolRule},
	{Kind: op.BatchNormInternal, Expand: expandBatchNormInternal, Why: "its saved statistics have readers",
		Operands: settings(3, 4)},
	{Kind: op.BatchNormalization, Rule: batchNormalizationRule, Operands: settings(3, 4)},
	{Kind: op.BiasDropout, Expand: expandBiasDropout},
	{Kind: op.BitmaskBiasDropout, Expand: expandBitmaskBiasDropout},
	{Kind: op.BitmaskDropout, Expand: expandBitmaskDropout},
	{Kind: op.BlackmanWindow, None: ofSize},
	{Kind: op.Col2Im, Rule: col2ImRule},
	{Kind: op.Conv, Rule: convRule},
	{Kind: op.ConvTranspose, Rule: convTransposeRule},
	{Kind: op.DFT, Rule: dftRule},
	{Kind: op.DequantizeLinear, Rule: dequantizeLinearRule, Operands: settings(1), Quantized: true},
	{Kind: op.Dropout, Rule: dropoutRule, Same: (*Ctx).dropsNothing, Operands: settings(1)},
	{Kind: op.FusedConv, Rule: fusedConvRule},
	{Kind: op.GlobalAveragePool, Rule: globalAveragePoolRule},
	{Kind: op.GlobalLpPool, Rule: globalLpPoolRule},
	{Kind: op.GlobalMaxPool, Rule: globalMaxPoolRule},
	{Kind: op.GridSample, Rule: gridSampleRule},
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
	{Kind: op.MelWeightMatrix, None: "the edges of its bands are rounded to frequencies"},
	{Kind: op.NegativeLogLikelihoodLoss, Rule: negativeLogLikelihoodLossRule, Operands: settings(2)},
	{Kind: op.NegativeLogLikelihoodLossInternal, Expand: expandLossInternal("NegativeLogLikelihoodLoss")},
	{Kind: op.NonMaxSuppression, None: "it chooses boxes and gives their numbers"},
	{Kind: op.QuantizeLinear, Rule: quantizeLinearRule, Operands: settings(1), Quantizes: true, Quantized: true},
	{Kind: op.RMSNormalization, Rule: rmsNormalizationRule},
	{Kind: op.Resize, Rule: resizeRule, Operands: resizeOperands},
	{Kind: op.SimplifiedLayerNormalization, Rule: simplifiedLayerNormalizationRule},
	{Kind: op.SkipLayerNormalization, Expand: expandSkipLayerNormalization},
	{Kind: op.SkipSimplifiedLayerNormalization, Expand: expandSkipSimplified},
	{Kind: op.STFT, Rule: stftRule, Operands: settings(2)},
	{Kind: op.Softmax, Rule: softmaxRule},
	{Kind: op.SoftmaxCrossEntropyLoss, Rule: softmaxCrossEntropyLossRule, Operands: settings(2)},
	{Kind: op.SoftmaxCrossEntropyLossInternal, Expand: expandLossInternal("SoftmaxCrossEntropyLoss")},
	{Kind: op.Upsample, Rule: resizeRule, Operands: resizeOperands[:1]},
}
