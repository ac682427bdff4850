package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

func inferred(t *testing.T, m *graph.Model) *op.Result {
	t.Helper()
	types, err := op.Infer(m)
	require.NoError(t, err)
	return types
}

// TestCore: accumulation, broadcasting with known, symbolic and unknown dims, unused outputs.
func TestCore(t *testing.T) {
	n := symbolic.Env{"N": 3, "M": 1}
	checkGradients(t, []gradCase{
		{Name: "square", Graph: `g (double[4] x) => (double[4] y) { y = Mul(x, x) }`},
		{Name: "shared", Graph: `g (double[4] x) => (double[4] y) { a = Relu(x)  b = Mul(a, x)  y = Add(b, a) }`},
		{Name: "broadcast", Graph: `g (double[2, 3] x, double[3] b) => (double[2, 3] y) { y = Mul(x, b) }`},
		{Name: "broadcast ones", Graph: `g (double[2, 1] x, double[1, 3] b) => (double[2, 3] y) { y = Mul(x, b) }`},
		{Name: "symbolic", Graph: `g (double[N, 3] x, double[3] b) => (double[N, 3] y) { y = Mul(x, b) }`, Dims: n},
		{Name: "maybe broadcast", Graph: `g (double[N, 3] x, double[M, 3] b) => (double[K, 3] y) { y = Mul(x, b) }`,
			Dims: symbolic.Env{"N": 3, "M": 1, "K": 3}},
		{Name: "maybe broadcast, equal",
			Graph: `g (double[N, 3] x, double[M, 3] b) => (double[K, 3] y) { y = Mul(x, b) }`,
			Dims:  symbolic.Env{"N": 3, "M": 3, "K": 3}},
		{Name: "two outputs", Graph: `g (double[4] x) => (double[4] y, double[4] z) { y = Relu(x)  z = Mul(y, x) }`},
		{Name: "no rule", Graph: `g (double[4] x) => (double[4] y) { y = Unique(x) }`, Fails: "Unique"},
	})
}

// TestNames: outputs come first and unchanged, then <param>_grad; parameters are found.
func TestNames(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
		g (float[N, 3] x, float[3] w) => (float[N, 3] h, float[1, 1] loss) <float[3] b = {1, 2, 3}> {
			a = Mul(x, w)
			h = Add(a, b)
			loss = Constant<value = float[1, 1] {1}>()
		}`, "names")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{{Name: "h", Seed: true}}})
	require.NoError(t, err)
	var names []string
	for _, d := range j.Model.Graph.Outputs {
		names = append(names, j.Model.Graph.Values[d.Value].Name)
	}
	require.Equal(t, []string{"h", "loss", "w_grad", "b_grad"}, names)
	require.Equal(t, []string{"w", "b"}, j.Wrt)
}

// TestParameters: which inputs are parameters, which are data, and what is only a guess.
func TestParameters(t *testing.T) {
	const body = ` { h = MatMul(x, w)  d = Sub(h, y)  q = Mul(d, d)  s = ReduceSum<keepdims = 0>(q)  k = Size(ids)  f = Cast<to = 1>(k)  loss = Mul(s, f) }`
	for _, c := range []struct {
		name, inputs       string
		opts               autograd.Options
		wrt, data, guessed []string
	}{
		{name: "rows of the labels", inputs: "float[8, 3] x, float[3, 4] w, float[8, 4] y, int64[8] ids",
			wrt: []string{"w"}, data: []string{"x", "y"}, guessed: []string{"w"}},
		{name: "rows of an input with a symbol", inputs: "float[8, K] x, float[3, 4] w, float[8, 4] y, int64[M] ids",
			wrt: []string{"w"}, data: []string{"y"}},
		{name: "symbols", inputs: "float[N, 3] x, float[3, 4] w, float[N, 4] y, int64[N] ids", wrt: []string{"w"}},
		{name: "nothing tells", inputs: "float[8, 3] x, float[3, 4] w, float[8, 4] y, int64 ids",
			wrt: []string{"x", "w", "y"}, guessed: []string{"x", "w", "y"}},
		{name: "an initializer's default",
			inputs: "float[8, 3] x, float[3, 4] w, float[8, 4] y = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, " +
				"15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}, int64[8] ids",
			wrt: []string{"w", "y"}, data: []string{"x"}, guessed: []string{"w"}},
		{name: "asked for", inputs: "float[8, 3] x, float[3, 4] w, float[8, 4] y, int64[8] ids",
			opts: autograd.Options{Params: []string{"x"}}, wrt: []string{"x"}},
		{name: "all", inputs: "float[8, 3] x, float[3, 4] w, float[N, 4] y, int64[8] ids",
			opts: autograd.Options{AllInputs: true}, wrt: []string{"x", "w", "y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (`+c.inputs+`) => (float loss)`+
				body, c.name)
			require.NoError(t, err)
			j, err := autograd.Differentiate(m, c.opts)
			require.NoError(t, err)
			require.Equal(t, c.wrt, j.Wrt)
			require.Equal(t, c.data, j.DataInputs)
			require.Equal(t, c.guessed, j.GuessedInputs)
		})
	}
}

// TestLossIsMade: an output that is an input or a weight is no loss, be it scalar and first; asked
// for by name, it is refused.
func TestLossIsMade(t *testing.T) {
	parse := func(text string) *graph.Model {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "g")
		require.NoError(t, err)
		return m
	}
	j, err := autograd.Differentiate(
		parse(`g (float s, float[3] x) => (float s, float b, float loss) <float b = {1}> { y = Mul(x, s)  loss = ReduceSum<keepdims = 0>(y) }`), autograd.Options{})
	require.NoError(t, err)
	require.Contains(t, j.Wrt, "s")
	_, err = live.FindBoundary(j.Model)
	require.NoError(t, err)

	only := parse(`g (float s, float[3] x) => (float s, float b, float[3] y) <float b = {1}> { y = Mul(x, s) }`)
	_, err = autograd.Differentiate(only, autograd.Options{})
	require.ErrorIs(t, err, autograd.ErrNoLoss)
	for _, name := range []string{"s", "b"} {
		_, err = autograd.Differentiate(only, autograd.Options{Losses: []autograd.Loss{{Name: name}}})
		require.ErrorContains(t, err, "wanted a value that a node makes")
	}
}
