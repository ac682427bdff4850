package cpu

import (
	"memopt/executor"
	"memopt/graph/op"
)

// reduceRows: reductions, scans and sorts.
var reduceRows = requiring([]Row{
	{Kind: op.ArgMax, New: newArg(false)},
	{Kind: op.ArgMin, New: newArg(true)},
	{Kind: op.BroadcastGradientArgs, New: newBroadcastArgs},
	{Kind: op.CumSum, New: widened(newCumSum)},
	{Kind: op.NonZero, New: newNonZero},
	{Kind: op.ReduceAllL2, New: newReduceAllL2},
	{Kind: op.ReduceL1, New: newReduce(foldAbs, 18)},
	{Kind: op.ReduceL2, New: newReduce(foldNorm, 18)},
	{Kind: op.ReduceLogSum, New: newReduce(foldLog, 18)},
	{Kind: op.ReduceLogSumExp, New: newReduce(foldLogExp, 18)},
	{Kind: op.ReduceMax, New: newReduce(foldMax, 18)},
	{Kind: op.ReduceMean, New: newReduce(foldMean, 18)},
	{Kind: op.ReduceMin, New: newReduce(foldMin, 18)},
	{Kind: op.ReduceProd, New: newReduce(foldProd, 18)},
	{Kind: op.ReduceSum, New: newReduce(foldSum, 13)},
	{Kind: op.ReduceSumSquare, New: newReduce(foldSquare, 18)},
	{Kind: op.ReduceSumTraining, New: newReduce(foldSum, 1)},
	{Kind: op.TopK, New: widened(newTopK)},
	{Kind: op.Unique, New: widened(newUnique)},
})

// requiring makes kernels refuse nodes that leave out an input that the operator's schema requires.
func requiring(rows []Row) []Row {
	for i := range rows {
		kernel := rows[i].New
		rows[i].New = func(p *executor.Prep) (executor.Kernel, error) {
			for slot := range p.Info.Inputs.Min {
				if !p.Has(slot) {
					return nil, p.Errorf("input %d is left out", slot)
				}
			}
			return kernel(p)
		}
	}
	return rows
}
