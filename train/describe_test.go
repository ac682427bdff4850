package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
	"memopt/symbolic"
	"memopt/train"
	"memopt/train/data"
)

// TestDescribeLabels: what the model does with its labels is told to the data, so that models that
// shift them get those that they want.
func TestDescribeLabels(t *testing.T) {
	for text, shifts := range map[string]bool{
		`a = Slice(logits, zero, minus, one)  b = Slice(labels, one, end, one)`: true,
		`a = Identity(logits)  b = Identity(labels)`:                            false,
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (int64[batch, seq] input_ids,
			int64[batch, seq] labels) => (float loss)
			<float[4, 4] table = {1, 2, 3, 4, 2, 3, 4, 1, 3, 4, 1, 2, 4, 1, 2, 3}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] minus = {-1}, int64[1] end = {99999},
			int64[2] flat = {-1, 4}, int64[1] row = {-1}> {
			logits = Gather(table, input_ids) `+text+`
			c = Reshape(a, flat)  d = Reshape(b, row)  loss = SoftmaxCrossEntropyLoss<ignore_index = -100>(c, d) }`, "g")
		require.NoError(t, err)
		model, err := memopt.New(m, memopt.Options{Dims: symbolic.Env{"seq": 8}})
		require.NoError(t, err)
		s, err := train.Make(model, train.Recipe{Optimizer: autograd.Optimizer{Kind: "sgd"}})
		require.NoError(t, err)
		got, err := s.Describe()
		require.NoError(t, err)
		require.Len(t, got, 2)
		require.Equal(t, data.Input{Name: "input_ids", DType: graph.Int64, Shape: []int{8}, Batched: true, Classes: 4},
			got[0])
		require.Equal(t, shifts, got[1].Shifts)
	}
}
