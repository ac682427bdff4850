package autograd_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// TestRecordedDraws: the gradients of a subgraph read the draws of its forward run. Each element of y is a factor
// that is drawn, times a power of an element of x, so that x·dx is that power times y·dy.
func TestRecordedDraws(t *testing.T) {
	const masked = `<double half = {0.5}, bool yes = {1}, double[2] w = {1, 1}> {`
	branches := func(then, other string) string {
		return `g (bool c, double[N, 8] x) => (double[N, 8] y) ` + masked + ` y = If<then_branch = t () => (double[N, 8] a) { ` +
			then + ` }, else_branch = e () => (double[N, 8] b) { ` + other + ` }>(c) }`
	}
	rows := func(body string) string {
		return `g (double[4, N, 8] x) => (double[4, N, 8] y) ` + masked + ` y = Scan<num_scan_inputs = 1, body = b (double[N, 8] xt) => (double[N, 8] yt) { ` +
			body + ` }>(x) }`
	}
	yes, no := map[string]*executor.Tensor{"c": truthTensor(true)}, map[string]*executor.Tensor{"c": truthTensor(false)}
	mode := map[string]*executor.Tensor{"c": truthTensor(true), "m": truthTensor(true)}
	for _, c := range []struct {
		gradCase
		power float64
		again bool // the values that are drawn differ from run to run
	}{
		{gradCase{Name: "then", In: yes, Graph: branches("a = Dropout(x, half, yes)", "b = Tanh(x)")}, 1, true},
		{gradCase{Name: "else", In: no,
			Graph: branches("a = Tanh(x)", "d = Dropout(x, half, yes)  b = Mul(d, x)")}, 2, true},
		{gradCase{Name: "squared", In: yes,
			Graph: branches("d = Dropout<seed = 5>(x, half, yes)  a = Mul(d, d)", "b = Tanh(x)")}, 2, false},
		{gradCase{Name: "both", In: no,
			Graph: branches("a = Dropout(x, half, yes)", "b = Dropout(x, half, yes)")}, 1, true},
		{gradCase{Name: "mode given", In: mode,
			Graph: `g (bool c, bool m, double[4, 8] x) => (double[4, 8] y) ` + masked +
				` y = If<then_branch = t () => (double[4, 8] a) { a = Dropout(x, half, m) }, else_branch = e () => (double[4, 8] b) { b = Tanh(x) }>(c) }`}, 1, true},
		{gradCase{Name: "noise", In: yes, Graph: `g (bool c, double[4, 8] x) => (double[4, 8] y) {
			y = If<then_branch = t () => (double[4, 8] a) { n = RandomNormal<shape = [4, 8], dtype = 11>()  a = Mul(n, x) },
				else_branch = e () => (double[4, 8] b) { b = Relu(x) }>(c) }`}, 1, true},
		{gradCase{Name: "two", In: yes,
			Graph: branches("d = Dropout(x, half, yes)  k = Dropout(d, half, yes)  a = Mul(k, d)",
				"b = Tanh(x)")}, 2, true},
		{gradCase{Name: "an If inside that is not made again", In: yes, Graph: branches(
			"a = If<then_branch = t2 () => (double[N, 8] a2) { a2 = Identity(x) }, "+
				"else_branch = e2 () => (double[N, 8] b2) { b2 = Tanh(x) }>(c)",
			"b = Dropout(x, half, yes)")}, 1, false},
		{gradCase{Name: "rows", Graph: rows("yt = Dropout(xt, half, yes)")}, 1, true},
		{gradCase{Name: "rows squared", Graph: rows("d = Dropout(xt, half, yes)  yt = Mul(d, d)")}, 2, true},
		{gradCase{Name: "rows backwards", Graph: `g (double[4, N, 8] x) => (double[4, N, 8] y) ` + masked +
			` y = Scan<num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], body = b (double[N, 8] xt) => (double[N, 8] yt) {
				d = Dropout(xt, half, yes)  yt = Mul(d, xt) }>(x) }`}, 2, true},
		{gradCase{Name: "counted",
			Graph: `g (double[2, N, 8] x) => (double[2, N, 8] y) <double half = {0.5}, bool yes = {1}, int64 m = {2}> {
			y = Loop<body = b (int64 i, bool c, double[2, N, 8] h) => (bool c2, double[2, N, 8] h2) {
				c2 = Identity(c)  d = Dropout(h, half, yes)  h2 = Mul(d, x) }>(m, "", x) }`}, 3, true},
	} {
		t.Run(c.Name, func(t *testing.T) {
			c.Dims = symbolic.Env{"N": 4}
			m := c.parse(t)
			j, err := autograd.Differentiate(m,
				autograd.Options{Wrt: []string{"x"}, Losses: []autograd.Loss{{Name: "y", Seed: true}}})
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(1, 2))
			in := c.inputs(t, m, rng)
			n := in["x"].Len()
			seed := make([]float64, n)
			for i := range seed {
				seed[i] = rng.NormFloat64()
			}
			in["y"+autograd.SeedSuffix] = &executor.Tensor{
				DType: graph.Float64, Shape: in["x"].Shape, Data: executor.Memory(seed),
			}
			run, previous := newRunner(t, j.Model, c.Dims), []float64(nil)
			for range 2 {
				out := run(in)
				x, y, dx := executor.Of[float64](in["x"]), executor.Of[float64](out[0]), executor.Of[float64](out[1])
				for i := range x {
					require.InDelta(t, c.power*y[i]*seed[i], dx[i]*x[i], 1e-9)
				}
				if c.again {
					require.NotEqual(t, previous, floatElems(out[0]), "another step draws otherwise")
				}
				previous = floatElems(out[0])
			}
		})
	}
}

// TestDrawsThatAreNotRecorded: errors name the node.
func TestDrawsThatAreNotRecorded(t *testing.T) {
	const head = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (bool c, double[N, 4] x) => (double[N, 4] y) <double half = {0.5}, bool yes = {1}, int64 m = {2}> { `
	for _, c := range []struct{ name, text, fails string }{
		{"inside of inside", `y = Loop<body = b (int64 i, bool c1, double[N, 4] h) => (bool c2, double[N, 4] h2) { c2 = Identity(c1)
			h2 = If<then_branch = t () => (double[N, 4] a) { a = Dropout(h, half, yes) }, else_branch = e () => (double[N, 4] b1) { b1 = Tanh(h) }>(c) }>(m, "", x) }`,
			"(If) in its subgraph draws random numbers that its gradient needs"},
		{"an operator that is defined by several", `y = If<then_branch = t () => (double[N, 4] a) { a = com.microsoft.BiasDropout(x, x, , half, yes) },
			else_branch = e () => (double[N, 4] b) { b = Tanh(x) }>(c) }`, "stands for one that is defined by several"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse(head+c.text, c.name)
			require.NoError(t, err)
			_, err = autograd.Differentiate(m,
				autograd.Options{Wrt: []string{"x"}, Losses: []autograd.Loss{{Name: "y", Seed: true}}})
			require.ErrorContains(t, err, c.fails)
			var none *autograd.NoRule
			require.ErrorAs(t, err, &none)
		})
	}
}

// TestRatioOfASubgraph: a ratio that a subgraph captures is no parameter.
func TestRatioOfASubgraph(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (bool c, float[N, 4] x) => (float y) <float half = {0.5}, bool yes = {1}, float[4] w = {1, 2, 3, 4}> {
		z = If<then_branch = t () => (float[N, 4] a) { d = Dropout(x, half, yes)  a = Mul(d, w) }, else_branch = e () => (float[N, 4] b) { b = Tanh(x) }>(c)
		y = ReduceSum<keepdims = 0>(z) }`, "ratio")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"w"}, j.Wrt)
}
