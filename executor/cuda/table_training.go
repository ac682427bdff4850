package cuda

import "memopt/graph/op"

// trainingRows: the operators of training graphs on all gradients and weights.
var trainingRows = []Row{
	{Kind: op.AdamOptimizer, New: newAdamOptimizer},
	{Kind: op.BroadcastGradientArgs, Why: hostShapes},
	{Kind: op.DivGrad, New: newDivGrad},
	{Kind: op.InPlaceAccumulator, New: accumulator(false)},
	{Kind: op.InPlaceAccumulatorV2, New: accumulator(true)},
	{Kind: op.IsAllFinite, New: newAllFinite},
	{Kind: op.MixedPrecisionScale, New: newMixedPrecisionScale},
	{Kind: op.ReduceAllL2, New: newReduceAllL2},
	{Kind: op.Scale, New: newScale},
	{Kind: op.ScaledSum, New: newScaledSum},
}
