package cuda

import "memopt/graph/op"

// forSignals is why the device has no kernel of windows and transforms of signals.
const forSignals = "windows and transforms of signals are small beside the networks that read them"

// visionRows: operators that look at places of planes, and transforms of signals.
var visionRows = []Row{
	{Kind: op.AffineGrid, New: newAffineGrid, HostInputs: []int{1}},
	{Kind: op.BlackmanWindow, Why: forSignals},
	{Kind: op.CenterCropPad, Why: notTrained},
	{Kind: op.Col2Im, New: newCol2Im, HostInputs: []int{1, 2}},
	{Kind: op.DFT, Why: forSignals},
	{Kind: op.DeformConv, Why: noGradient},
	{Kind: op.GridSample, New: newGridSample},
	{Kind: op.HammingWindow, Why: forSignals},
	{Kind: op.HannWindow, Why: forSignals},
	{Kind: op.MaxRoiPool, Why: noGradient},
	{Kind: op.MelWeightMatrix, Why: forSignals},
	{Kind: op.MaxUnpool, Why: noGradient},
	{Kind: op.NonMaxSuppression, Why: dataLength},
	{Kind: op.RoiAlign, Why: noGradient},
	{Kind: op.STFT, Why: forSignals},
	{Kind: op.Unique, Why: dataLength},
}
