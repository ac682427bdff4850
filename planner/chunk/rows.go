package chunk

import (
	"memopt/graph"
	"memopt/graph/op"
)

// row is an operator's entry for chunking, besides its factors.
type row struct {
	kind      graph.Kind
	mean      *mean      // it divides by a number of labels
	continued *continued // it can go on with a sum
}

var table = []row{
	{kind: op.Gemm, continued: &continued{}},
	{kind: op.MatMul, continued: &continued{stacks: op.MatMulAdd}},
	{kind: op.FusedMatMul, continued: &continued{stacks: op.FusedMatMulAdd, attrs: []graph.Attr{
		{Name: "alpha", Value: float32(1)}, {Name: "transA", Value: int64(0)}, {Name: "transB", Value: int64(0)},
	}}},
	{kind: op.NegativeLogLikelihoodLoss, mean: &mean{labels: 1, weights: 2, ignore: -1}},
	{kind: op.NegativeLogLikelihoodLossInternal, mean: &mean{labels: 1, weights: 2, ignore: 3}},
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
