package cpu

import "memopt/graph/op"

// sequenceRows: recurrences, random draws, optimizers.
var sequenceRows = []Row{
	{Kind: op.BiasDropout, New: newDropout(biasDropout)},
	{Kind: op.BitmaskBiasDropout, New: newDropout(bitmaskBiasDropout)},
	{Kind: op.BitmaskDropout, New: newDropout(bitmaskDropout)},
	{Kind: op.BitmaskDropoutGrad, New: newDropoutGrad(true)},
	{Kind: op.Dropout, New: newDropout(plainDropout)},
	{Kind: op.DropoutGrad, New: newDropoutGrad(false)},
}
