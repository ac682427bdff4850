package cpu

import "memopt/graph/op"

// takesSequences is why some optimizers have no kernel.
const takesSequences = "takes sequences of tensors"

// sequenceRows: recurrences, transforms of signals, random draws, optimizers.
var sequenceRows = []Row{
	{Kind: op.Adam4bit, New: newLowBitAdam(4, false)},
	{Kind: op.Adam8bit, New: newLowBitAdam(8, false)},
	{Kind: op.StochasticAdam4bit, New: newLowBitAdam(4, true)},
	{Kind: op.StochasticAdam8bit, New: newLowBitAdam(8, true)},
	{Kind: op.StochasticRound, New: newStochasticRound},
	{Kind: op.AdamOptimizer, New: newAdamOptimizer},
	{Kind: op.AdamWOptimizer, Why: takesSequences},
	{Kind: op.Bernoulli, New: newRandom},
	{Kind: op.BiasDropout, New: newDropout(biasDropout)},
	{Kind: op.BiasSoftmaxDropout, New: newBiasSoftmaxDropout},
	{Kind: op.BitmaskBiasDropout, New: newDropout(bitmaskBiasDropout)},
	{Kind: op.BitmaskDropout, New: newDropout(bitmaskDropout)},
	{Kind: op.BitmaskDropoutGrad, New: newDropoutGrad(true)},
	{Kind: op.BlackmanWindow, New: newWindowFunction},
	{Kind: op.DFT, New: widened(newDFT)},
	{Kind: op.Dropout, New: newDropout(plainDropout)},
	{Kind: op.DropoutGrad, New: newDropoutGrad(false)},
	{Kind: op.GRU, New: newGRU},
	{Kind: op.HammingWindow, New: newWindowFunction},
	{Kind: op.HannWindow, New: newWindowFunction},
	{Kind: op.LSTM, New: newLSTM},
	{Kind: op.MelWeightMatrix, New: newMelWeightMatrix},
	{Kind: op.Multinomial, New: newMultinomial},
	{Kind: op.RNN, New: newRNN},
	{Kind: op.RandomNormal, New: newRandom},
	{Kind: op.RandomNormalLike, New: newRandom},
	{Kind: op.RandomUniform, New: newRandom},
	{Kind: op.RandomUniformLike, New: newRandom},
	{Kind: op.STFT, New: widened(newSTFT)},
	{Kind: op.SGDOptimizerV2, Why: takesSequences},
}
