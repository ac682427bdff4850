package cpu

import "memopt/graph/op"

// convRows: convolutions, pools and vision.
var convRows = []Row{
	{Kind: op.Conv, New: widened(newConv)},
	{Kind: op.FusedConv, New: widened(newFusedConv)},

	{Kind: op.ConvTranspose, New: widened(newConvTranspose)},
	{Kind: op.ConvGrad, New: widened(newConvGrad)},
	{Kind: op.ConvInteger, New: newConvInteger},
	{Kind: op.AveragePool, New: widened(newAveragePool)},
	{Kind: op.LpPool, New: widened(newLpPool)},
	{Kind: op.GlobalAveragePool, New: widened(newGlobalAveragePool)},
	{Kind: op.GlobalMaxPool, New: widened(newGlobalMaxPool)},
	{Kind: op.GlobalLpPool, New: widened(newGlobalLpPool)},
	{Kind: op.MaxPool, New: widened(newMaxPool)},
	{Kind: op.MaxPoolGrad, New: widened(newMaxPoolGrad)},
	{Kind: op.MaxUnpool, New: newMaxUnpool},
	{Kind: op.Resize, New: newResize},
	{Kind: op.Upsample, New: newResize},
	{Kind: op.ResizeGrad, New: widened(newResizeGrad)},
	{Kind: op.GridSample, New: widened(newGridSample)},
	{Kind: op.AffineGrid, New: widened(newAffineGrid)},
	{Kind: op.RoiAlign, New: widened(newRoiAlign)},
	{Kind: op.MaxRoiPool, New: widened(newMaxRoiPool)},
	{Kind: op.NonMaxSuppression, New: newNonMax},
	{Kind: op.Col2Im, New: widened(newCol2Im)},
	{Kind: op.DeformConv, New: widened(newDeformConv)},
}
