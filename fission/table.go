package fission

import (
	"memopt/graph"
	"memopt/graph/op"
)

// row is what fission knows of an operator besides its factors.
type row struct {
	kind      graph.Kind
	mean      *mean      // it divides by a number of labels
	continued *continued // it adds to a sum
}

var table = []row{
	{kind: op.Gemm, continued: &continued{into: intoGemm}},
	{kind: op.MatMul, continued: &continued{matrices: true, into: intoGemm}},
	{kind: op.FusedMatMul, continued: &continued{matrices: true, into: intoGemm}},
	{kind: op.NegativeLogLikelihoodLoss, mean: &mean{labels: 1, weights: 2, ignore: -1}},
	{kind: op.SoftmaxCrossEntropyLoss, mean: &mean{labels: 1, weights: 2, ignore: -1}},
	{kind: op.SoftmaxCrossEntropyLossInternal, mean: &mean{labels: 1, weights: 2, ignore: 3}},
	{kind: op.SoftmaxCrossEntropyLossGrad, mean: &mean{gradient: true, labels: 2, weights: 3, ignore: -1}},
	{kind: op.SoftmaxCrossEntropyLossInternalGrad, mean: &mean{gradient: true, labels: 2, weights: 3, ignore: 4}},
}

// rows are the rows by kind.
var rows = func() (list [op.NumKinds]row) {
	for _, r := range table {
		list[r.kind] = r
	}
	return list
}()
