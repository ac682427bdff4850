package cuda

import "memopt/graph/op"

// visionRows: operators that look at places of planes.
var visionRows = []Row{
	{Kind: op.AffineGrid, New: newAffineGrid, HostInputs: []int{1}},
	{Kind: op.GridSample, New: newGridSample},
	{Kind: op.MaxRoiPool, New: newMaxRoiPool},
	{Kind: op.NonMaxSuppression, Why: dataLength},
	{Kind: op.RoiAlign, New: newRoiAlign},
	{Kind: op.Unique, Why: dataLength},
}
