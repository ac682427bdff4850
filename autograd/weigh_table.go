package autograd

import (
	"memopt/graph"
	"memopt/graph/op"
)

// divisorRow describes an operator for weighing.
type divisorRow struct {
	kind graph.Kind
	// find is the divisor of the node's output; nil means that it is not known.
	find func(w *weigher, n *graph.Node, depth int) (divisor, string)
	// passes says that the elements of input 0 keep their values.
	passes bool
	// bounds says that an output of one element is the one input that depends on data, but for a least value or a
	// small term, which keep a divisor away from 0.
	bounds bool
	// counts says that the output is as large as all elements of input 0 together.
	counts bool
}

// divisorTable has the rows by kind.
var divisorTable [op.NumKinds]divisorRow

func init() {
	for _, r := range []divisorRow{
		{kind: op.SoftmaxCrossEntropyLoss, find: (*weigher).labels},
		{kind: op.NegativeLogLikelihoodLoss, find: (*weigher).labels},
		{kind: op.Identity, find: (*weigher).same, passes: true},
		{kind: op.Cast, find: (*weigher).same, passes: true},
		{kind: op.Reshape, find: (*weigher).same, passes: true},
		{kind: op.Squeeze, find: (*weigher).same, passes: true},
		{kind: op.Unsqueeze, find: (*weigher).same, passes: true},
		{kind: op.Flatten, find: (*weigher).same, passes: true},
		{kind: op.Neg, find: (*weigher).same},
		{kind: op.ReduceMean, find: (*weigher).mean},
		{kind: op.ReduceSum, find: (*weigher).sum, counts: true},
		{kind: op.Size, counts: true},
		{kind: op.Add, find: (*weigher).terms, bounds: true},
		{kind: op.Sub, find: (*weigher).terms},
		{kind: op.Sum, find: (*weigher).terms},
		{kind: op.Mul, find: (*weigher).scaled},
		{kind: op.Div, find: (*weigher).quotient},
		{kind: op.Max, bounds: true},
		{kind: op.Clip, bounds: true},
	} {
		divisorTable[r.kind] = r
	}
}
