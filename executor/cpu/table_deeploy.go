package cpu

import "memopt/graph/op"

// deeployRows: the dialect of Deeploy's training graphs.
var deeployRows = requiring([]Row{
	{Kind: op.GeluGradDeeploy, New: newGeluGrad},
	{Kind: op.GemmDeeploy, New: widened(newBatchedGemm)},
	{Kind: op.LayerNormalizationGradDeeploy, New: newLayerNormGrad(layerNormDeeploy)},
	{Kind: op.SGDDeeploy, New: newSGD},
	{Kind: op.SoftmaxCrossEntropyLossDeeploy, New: newLogProbLoss},
	{Kind: op.SoftmaxCrossEntropyLossGradDeeploy, New: newUnitLossGrad},
})
