package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
	"memopt/symbolic"
	"memopt/train"
)

// TestSamples: which inputs hold a row for each sample, by the dims of their declarations.
func TestSamples(t *testing.T) {
	for _, c := range []struct {
		name, inputs string
		dims         symbolic.Env
		data         []string
		batch        string
		rows         int64
		batched      []bool
	}{
		{"one symbol", "float[n, 3] x, int64[n] y", nil, nil, "n", 0, []bool{true, true}},
		{"symbols of their own", "float[x_dim0, 3] x, int64[y_dim0] y", nil, nil, "x_dim0", 0, []bool{true, true}},
		{"bound to the same number", "float[a, 3] x, int64[b] y", symbolic.Env{"a": 8, "b": 8}, nil, "a", 0,
			[]bool{true, true}},
		{"one bound to another number is whole", "float[n, 3] x, int64[k] y", symbolic.Env{"n": 8, "k": 5}, nil, "n",
			0, []bool{true, false}},
		{"one bound, the batch not", "float[n, 3] x, int64[k] y", symbolic.Env{"k": 5}, nil, "n", 0,
			[]bool{true, false}},
		{"numbers", "float[8, 3] x, int64[8] y", nil, nil, "", 8, []bool{true, true}},
		{"all floats and fixed", "float[8, 3] x, float[8] y", nil, nil, "", 8, []bool{true, true}},
		{"a later dim counts steps", "int64[seq] y, float[n, seq, 3] x", nil, nil, "n", 0, []bool{false, true}},
		{"a number beside a bound symbol", "float[n, 3] x, int64[8] y", symbolic.Env{"n": 8}, []string{"x", "y"}, "n",
			0, []bool{true, true}},
		{"a number beside a symbol is whole", "float[n, 3] x, int64[8] y", nil, []string{"x", "y"}, "n", 0,
			[]bool{true, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (`+c.inputs+`) => (float loss)
				<float[3] w = {1, 2, 3}> { p = Mul(x, w)  s = ReduceSum<keepdims = 0>(p)  f = Cast<to = 1>(y)
				t = ReduceSum<keepdims = 0>(f)  loss = Mul(s, t) }`, "g")
			require.NoError(t, err)
			model, err := memopt.New(m, memopt.Options{Dims: c.dims})
			require.NoError(t, err)
			s, err := train.Make(model, train.Recipe{Optimizer: autograd.Optimizer{Kind: "sgd"},
				Differentiate: autograd.Options{Data: c.data}})
			require.NoError(t, err)
			require.Equal(t, []string{"w"}, s.Params)
			require.Equal(t, c.batch, s.Batch)
			require.Equal(t, c.rows, s.Rows)
			got, err := s.Describe()
			require.NoError(t, err)
			var batched []bool
			for _, in := range got {
				batched = append(batched, in.Batched)
			}
			require.Equal(t, c.batched, batched)
		})
	}
}
