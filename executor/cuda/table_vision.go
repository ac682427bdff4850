package cuda

import "memopt/graph/op"

// forSignals is why the device has no kernel of the transforms of signals.
const forSignals = "transforms of signals are small beside the networks that read them, and the host computes them"

// visionRows: operators that look at places of planes, and windows of signals.
var visionRows = []Row{
	{Kind: op.AffineGrid, New: newAffineGrid, HostInputs: []int{1}},
	{Kind: op.BlackmanWindow, New: tapering(0.42, 0.5, 0.08), HostInputs: []int{0}},
	{Kind: op.CenterCropPad, New: newCenterCropPad, HostInputs: []int{1}},
	{Kind: op.Col2Im, New: newCol2Im, HostInputs: []int{1, 2}},
	{Kind: op.DFT, Why: forSignals},
	{Kind: op.DeformConv, New: newDeformConv},
	{Kind: op.GridSample, New: newGridSample},
	{Kind: op.HammingWindow, New: tapering(25.0/46, 21.0/46, 0), HostInputs: []int{0}},
	{Kind: op.HannWindow, New: tapering(0.5, 0.5, 0), HostInputs: []int{0}},
	{Kind: op.MaxRoiPool, New: newMaxRoiPool},
	{Kind: op.MelWeightMatrix, Why: forSignals},
	{Kind: op.MaxUnpool, New: newMaxUnpool, HostInputs: []int{2}},
	{Kind: op.NonMaxSuppression, Why: dataLength},
	{Kind: op.RoiAlign, New: newRoiAlign},
	{Kind: op.STFT, Why: forSignals},
	{Kind: op.Unique, Why: dataLength},
}
