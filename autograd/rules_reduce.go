package autograd

import "memopt/graph/op"

// reducePlaces is why no gradient flows through operators that give places.
const reducePlaces = "its result does not change with small changes of the data"

// reduceRules: reductions, sorts and scans.
var reduceRules = []Row{
	{Kind: op.ArgMax, None: reducePlaces},
	{Kind: op.ArgMin, None: reducePlaces},
	{Kind: op.CumSum, Rule: cumSumRule},
	{Kind: op.Hardmax, None: reducePlaces},
	{Kind: op.NonZero, None: reducePlaces},
	{Kind: op.ReduceL1, Rule: reduceL1Rule},
	{Kind: op.ReduceL2, Rule: reduceL2Rule},
	{Kind: op.ReduceLogSum, Rule: reduceLogSumRule},
	{Kind: op.ReduceLogSumExp, Rule: reduceLogSumExpRule},
	{Kind: op.ReduceMax, Rule: reduceExtremeRule},
	{Kind: op.ReduceMean, Rule: reduceMeanRule},
	{Kind: op.ReduceMin, Rule: reduceExtremeRule},
	{Kind: op.ReduceProd, Rule: reduceProdRule},
	{Kind: op.ReduceSum, Rule: reduceSumRule},
	{Kind: op.ReduceSumSquare, Rule: reduceSumSquareRule},
	{Kind: op.ReduceSumTraining, Rule: reduceSumRule},
	{Kind: op.TopK, Rule: topKRule},
}
