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
		whole        []bool // known to count something else; nil: none is
	}{
		{"one symbol", "float[n, 3] x, int64[n] y", nil, nil, "n", 0, []bool{true, true}, nil},
		{"symbols of their own", "float[x_dim0, 3] x, int64[y_dim0] y", nil, nil, "x_dim0", 0, []bool{true, true}, nil},
		{"bound to the same number", "float[a, 3] x, int64[b] y", symbolic.Env{"a": 8, "b": 8}, nil, "a", 0,
			[]bool{true, true}, nil},
		{"one bound to another number is whole", "float[n, 3] x, int64[k] y", symbolic.Env{"n": 8, "k": 5}, nil, "n",
			0, []bool{true, false}, []bool{false, true}},
		{"one bound, the batch not", "float[n, 3] x, int64[k] y", symbolic.Env{"k": 5}, nil, "n", 0,
			[]bool{true, false}, nil},
		{"numbers", "float[8, 3] x, int64[8] y", nil, nil, "", 8, []bool{true, true}, nil},
		{"all floats and fixed", "float[8, 3] x, float[8] y", nil, nil, "", 8, []bool{true, true}, nil},
		{"a later dim counts steps", "int64[seq] y, float[n, seq, 3] x", nil, nil, "n", 0, []bool{false, true},
			[]bool{true, false}},
		{"a number of samples beside a symbol", "float[8, 3] x, int64[n] y", symbolic.Env{"n": 8}, []string{"x"}, "", 8,
			[]bool{true, true}, nil},
		{"a number of samples beside a symbol of another number", "float[8, 3] x, int64[n] y", symbolic.Env{"n": 9},
			[]string{"x"}, "", 8, []bool{true, false}, []bool{false, true}},
		{"a number beside a batch of another number is whole", "float[n, 3] x, int64[8] y", symbolic.Env{"n": 4},
			[]string{"x", "y"}, "n", 0, []bool{true, false}, []bool{false, true}},
		{"a number beside a bound symbol", "float[n, 3] x, int64[8] y", symbolic.Env{"n": 8}, []string{"x", "y"}, "n",
			0, []bool{true, true}, nil},
		{"a number beside a symbol is whole", "float[n, 3] x, int64[8] y", nil, []string{"x", "y"}, "n", 0,
			[]bool{true, false}, nil},
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
			for i, in := range got {
				require.Equal(t, c.batched[i], in.Batched, in.Name)
				require.Equal(t, c.whole != nil && c.whole[i], in.Whole, in.Name)
			}
			require.Len(t, got, len(c.batched))
		})
	}
}
