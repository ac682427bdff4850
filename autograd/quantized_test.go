package autograd_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
)

// fakeQuantized runs QuantizeLinear and DequantizeLinear on x, and returns the output and the gradients
// of the inputs in wrt for a gradient g of the output.
func fakeQuantized(t *testing.T, text string, in map[string]*executor.Tensor, g []float64, wrt ...string) [][]float64 {
	t.Helper()
	c := gradCase{Name: "quantized", Graph: text}
	m := c.parse(t)
	j, err := autograd.Differentiate(m,
		autograd.Options{Wrt: wrt, Losses: []autograd.Loss{{Name: "y", Seed: true}}})
	require.NoError(t, err)
	joint := map[string]*executor.Tensor{}
	for name, x := range in {
		joint[name] = x
	}
	y := newRunner(t, m, nil)(in)[0]
	joint["y"+autograd.SeedSuffix] = floatTensor(graph.Float32, y.Shape, g...)
	var out [][]float64
	for _, x := range newRunner(t, j.Model, nil)(joint) {
		out = append(out, floatElems(x))
	}
	return out
}

// quantizing begins the text of a graph that quantizes.
const quantizing = `<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> `

// TestStraightThrough: the estimates of torch.fake_quantize_per_tensor_affine and of its forms with a
// scale that is learned (_fake_quantize_learnable_per_tensor_affine and _per_channel_affine), whose
// numbers these are (torch 1.13).
func TestStraightThrough(t *testing.T) {
	x := []float64{-40, -3.1, -0.26, 0, 0.24, 1.5, 2.74, 39, 63.4, 63.6, 64.2}
	g := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	in := map[string]*executor.Tensor{"x": floatTensor(graph.Float32, []int{11}, x...),
		"s": floatTensor(graph.Float32, []int{}, 0.5)}
	for _, between := range []string{"r = Identity(q)", "r = Reshape(q, flat)",
		"a = Unsqueeze(q, zero)  b = Transpose(a)  c = Flatten(b)  r = Squeeze(c, one)"} {
		out := fakeQuantized(t, quantizing+`g (float[11] x, float s) => (float[11] y)
			<int8 z = {3}, int64[1] flat = {-1}, int64[1] zero = {0}, int64[1] one = {1}> {
				q = QuantizeLinear(x, s, z)  `+between+`  y = DequantizeLinear(r, s, z) }`, in, g, "x", "s")
		require.InDeltaSlice(t, []float64{-40, -3, -0.5, 0, 0, 1.5, 2.5, 39, 62, 62, 62}, out[0], 1e-6)
		require.InDeltaSlice(t, []float64{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0}, out[1], 1e-6)
		require.InDelta(t, 3713.2, out[2][0], 1e-2)
	}
	channels := map[string]*executor.Tensor{
		"x": floatTensor(graph.Float32, []int{2, 3}, -40, -3.1, 200, 0.26, -0.9, 0.3),
		"s": floatTensor(graph.Float32, []int{2}, 0.5, 0.003)}
	out := fakeQuantized(t, quantizing+`g (float[2, 3] x, float[2] s) => (float[2, 3] y) <int8[2] z = {3, -5}> {
		q = QuantizeLinear<axis = 0>(x, s, z)  y = DequantizeLinear<axis = -2>(q, s, z) }`, channels, g[:6], "x", "s")
	require.InDeltaSlice(t, []float64{-40, -3, 62, 0.261, -0.369, 0.3}, out[0], 1e-6)
	require.InDeltaSlice(t, []float64{1, 2, 0, 4, 0, 6}, out[1], 1e-6)
	require.InDeltaSlice(t, []float64{372.4, -613.6666}, out[2], 1e-3)
	// Without a zero point, to uint8, and through a Cast in place of DequantizeLinear.
	out = fakeQuantized(t, quantizing+`g (float[11] x, float s) => (float[11] y) {
		q = QuantizeLinear(x, s)  r = Cast<to = 1>(q)  y = Mul(r, s) }`, in, g, "x")
	require.InDeltaSlice(t, []float64{0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11}, out[1], 1e-5)
}

// TestStraightThroughBlocks: scales of blocks, compared with a loop over the elements.
func TestStraightThroughBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const rows, columns, block = 5, 3, 2
	x, g, s := make([]float64, rows*columns), make([]float64, rows*columns), make([]float64, 3*columns)
	for i := range x {
		x[i], g[i] = float64(float32(rng.NormFloat64())), float64(float32(rng.NormFloat64()))
	}
	for i := range s {
		s[i] = float64(float32(0.005 + 0.01*rng.Float64()))
	}
	dx, ds := make([]float64, len(x)), make([]float64, len(s))
	for i := range x {
		k := i/columns/block*columns + i%columns
		q := math.RoundToEven(float64(float32(x[i]) / float32(s[k])))
		if cut := min(max(q, -128), 127); cut != q {
			ds[k] += g[i] * cut
		} else {
			dx[i] = g[i]
			ds[k] += g[i] * (q - x[i]/s[k])
		}
	}
	out := fakeQuantized(t, quantizing+`g (float[5, 3] x, float[3, 3] s) => (float[5, 3] y)
		<int8[3, 3] z = {0, 0, 0, 0, 0, 0, 0, 0, 0}> {
			q = QuantizeLinear<axis = 0, block_size = 2>(x, s, z)  y = DequantizeLinear<axis = 0, block_size = 2>(q, s, z) }`,
		map[string]*executor.Tensor{"x": floatTensor(graph.Float32, []int{rows, columns}, x...),
			"s": floatTensor(graph.Float32, []int{3, columns}, s...)}, g, "x", "s")
	require.InDeltaSlice(t, dx, out[1], 1e-5)
	require.InDeltaSlice(t, ds, out[2], 1e-3)
}

// TestNoSilentZero: a loss that depends on a wanted value through an operand without a rule is an error that
// names the operator and the input, and never a gradient without that term.
func TestNoSilentZero(t *testing.T) {
	for _, c := range []struct{ name, text, fails string }{
		{"integer product", `g (float[2, 3] x, float s) => (float y) <int8[3, 2] w = {1, 2, 3, 4, 5, 6}, int8 z = {0}> {
			q = QuantizeLinear(x, s, z)  p = MatMulInteger(q, w)  f = Cast<to = 1>(p)  y = ReduceSum<keepdims = 0>(f) }`,
			`(MatMulInteger): no gradient rule; the gradient of "q" is wanted: products of quantized integers`},
		{"dynamic quantization", `g (float[2, 3] x, float s) => (float y) <int8[3, 2] w = {1, 2, 3, 4, 5, 6}> {
			h = Mul(x, s)  q, a, z = DynamicQuantizeLinear(h)  p = MatMulInteger(q, w, z)  f = Cast<to = 1>(p)
			y = ReduceSum<keepdims = 0>(f) }`, "(MatMulInteger)"},
		{"quantized product", `g (float[2, 3] x, float s) => (float y)
			<int8[3, 2] w = {1, 2, 3, 4, 5, 6}, int8 z = {0}, float one = {1}> {
			q = QuantizeLinear(x, s, z)  p = QLinearMatMul(q, one, z, w, one, z, one, z)
			f = DequantizeLinear(p, one, z)  y = ReduceSum<keepdims = 0>(f) }`, "(QLinearMatMul)"},
		{"a part of quantized numbers", `g (float[2, 3] x, float s) => (float y) <int8 z = {0}, int64[1] i = {0}> {
			q = QuantizeLinear(x, s, z)  p = Gather(q, i)  f = DequantizeLinear(p, s, z)  y = ReduceSum<keepdims = 0>(f) }`,
			`(Gather): no gradient rule; the gradient of input 0, "q" is wanted: a gradient through quantized numbers`},
		{"quantized numbers in a branch", `g (float[2, 3] x, float s, bool c) => (float y) <int8 z = {0}> {
			q = QuantizeLinear(x, s, z)
			f = If<then_branch = t () => (float[2, 3] a) { a = DequantizeLinear(q, s, z) },
				else_branch = e () => (float[2, 3] b) { b = Identity(x) }>(c)
			y = ReduceSum<keepdims = 0>(f) }`, "(If)"},
		{"narrow floats", `g (float[2, 3] x, float s) => (float y) <float8e4m3fn z = {0}> {
			q = QuantizeLinear(x, s, z)  f = DequantizeLinear(q, s, z)  y = ReduceSum<keepdims = 0>(f) }`,
			"whose steps differ"},
		{"scales of a Resize", `g (float[1, 1, 4, 4] x, float s) => (float y) <float[2] one = {1, 1}, int64[1] two = {2}> {
			e = Expand(s, two)  k = Concat<axis = 0>(one, e)  r = Resize<mode = "linear">(x, , k)
			y = ReduceSum<keepdims = 0>(r) }`, `(Resize): no gradient rule; the gradient of input 2, "k" is wanted`},
		{"statistics of a batch", `g (float[2, 3, 4] x, float[3] s) => (float y) <float[3] m = {0, 0, 0}> {
			o, n, v = BatchNormalization<training_mode = 1>(x, s, m, m, s)
			a = ReduceSum<keepdims = 0>(o)  b = ReduceSum<keepdims = 0>(n)  y = Add(a, b) }`,
			`the loss depends on output 1 ("n"), whose gradient the rule does not take`},
		{"statistics of a batch alone", `g (float[2, 3, 4] x, float[3] s) => (float y) <float[3] m = {0, 0, 0}> {
			o, n, v = BatchNormalization<training_mode = 1>(x, s, m, m, s)  y = ReduceSum<keepdims = 0>(n) }`,
			"the loss depends on the statistics"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse(quantizing+c.text, c.name)
			require.NoError(t, err)
			_, err = autograd.Differentiate(m,
				autograd.Options{Wrt: []string{"x", "s"}, Losses: []autograd.Loss{{Name: "y"}}})
			require.ErrorContains(t, err, c.fails)
			var none *autograd.NoRule
			require.ErrorAs(t, err, &none)
		})
	}
}

// TestWithoutGradients: values that reach the loss only where it is constant between jumps have the
// gradient 0, and are listed.
func TestWithoutGradients(t *testing.T) {
	m, err := graph.Parse(quantizing+`g (float[2, 3] x, float w) => (float y) <int64[1] i = {0}> {
		h = Mul(x, w)  q = Cast<to = 7>(h)  r = Cast<to = 1>(q)  c = Ceil(h)  s = Add(r, c)
		a = ArgMax(h)  f = Cast<to = 1>(a)  b = ReduceSum<keepdims = 0>(f)  d = ReduceSum<keepdims = 0>(s)  y = Add(b, d) }`,
		"steps")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w"}, Losses: []autograd.Loss{{Name: "y"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"w"}, j.Unreached)
}

// TestSettingsAreNoParameters: an initializer that only sets how operators work is a parameter where it
// is named, and not by default.
func TestSettingsAreNoParameters(t *testing.T) {
	m, err := graph.Parse(quantizing+`g (float[N, 3] x, int64[N] l) => (float y)
		<float[3] w = {1, 2, 3}, float hi = {6}, float s = {0.5}, float[3] classes = {1, 2, 1}, float[3] both = {1, 2, 3}> {
			h = Mul(x, w)  c = Clip(h, , hi)  q = QuantizeLinear(c, s)  d = DequantizeLinear(q, s)  f = Mul(d, both)
			a = SoftmaxCrossEntropyLoss(f, l, classes)  b = SoftmaxCrossEntropyLoss(f, l, both)  y = Add(a, b) }`, "settings")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"w", "both"}, j.Wrt)
	j, err = autograd.Differentiate(m, autograd.Options{Params: []string{"hi", "s", "classes"}})
	require.NoError(t, err)
	require.Equal(t, []string{"hi", "s", "classes"}, j.Wrt)
	require.Empty(t, j.Unreached)
}
