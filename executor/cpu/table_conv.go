package cpu

import (
	"memopt/executor"
	"memopt/graph/op"
)

// convRows: convolutions, pools and vision.
var convRows = []Row{
	{Kind: op.Conv, New: needInputs(2, widened(newConv))},
	{Kind: op.FusedConv, New: needInputs(2, widened(newFusedConv))},
	{Kind: op.ConvTranspose, New: needInputs(2, widened(newConvTranspose))},
	{Kind: op.ConvGrad, New: needInputs(3, widened(newConvGrad))},
	{Kind: op.ConvInteger, New: needInputs(2, newConvInteger)},
	{Kind: op.AveragePool, New: needInputs(1, widened(newAveragePool))},
	{Kind: op.LpPool, New: needInputs(1, widened(newLpPool))},
	{Kind: op.GlobalAveragePool, New: needInputs(1, widened(newGlobalAveragePool))},
	{Kind: op.GlobalMaxPool, New: needInputs(1, widened(newGlobalMaxPool))},
	{Kind: op.GlobalLpPool, New: needInputs(1, widened(newGlobalLpPool))},
	{Kind: op.MaxPool, New: needInputs(1, widened(newMaxPool))},
	{Kind: op.MaxPoolGrad, New: needInputs(2, widened(newMaxPoolGrad))},
	{Kind: op.MaxUnpool, New: needInputs(2, newMaxUnpool)},
	{Kind: op.Resize, New: needInputs(1, newResize)},
	{Kind: op.Upsample, New: needInputs(1, newResize)},
	{Kind: op.ResizeGrad, New: needInputs(2, widened(newResizeGrad))},
	{Kind: op.GridSample, New: needInputs(2, widened(newGridSample))},
	{Kind: op.AffineGrid, New: needInputs(2, widened(newAffineGrid))},
	{Kind: op.RoiAlign, New: needInputs(3, widened(newRoiAlign))},
	{Kind: op.MaxRoiPool, New: needInputs(2, widened(newMaxRoiPool))},
	{Kind: op.NonMaxSuppression, New: needInputs(2, newNonMax)},
	{Kind: op.Col2Im, New: needInputs(3, widened(newCol2Im))},
	{Kind: op.DeformConv, New: needInputs(3, widened(newDeformConv))},
}

// needInputs lets a maker of kernels refuse nodes that leave out one of the first n inputs.
func needInputs(
	n int, make func(*executor.Prep) (executor.Kernel, error),
) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		for i := range n {
			if !p.Has(i) {
				return nil, p.Errorf("input %d is left out", i)
			}
		}
		return make(p)
	}
}
