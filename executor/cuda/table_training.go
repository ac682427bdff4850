package cuda

import "memopt/graph/op"

// noLowBits is why the host updates states of few bits.
const noLowBits = "no kernel reads and writes codes with a scale per block"

// noRounding is why the host rounds stochastically.
const noRounding = "no kernel draws the bits that round"

// trainingRows: the operators of training graphs on all gradients and weights.
var trainingRows = []Row{
	{Kind: op.Adam4bit, Why: noLowBits},
	{Kind: op.Adam8bit, Why: noLowBits},
	{Kind: op.StochasticAdam4bit, Why: noLowBits},
	{Kind: op.StochasticAdam8bit, Why: noLowBits},
	{Kind: op.StochasticRound, Why: noRounding},
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
