package autograd_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
	"memopt/symbolic"
)

// manyHalves is the value of the symbol Many.
const manyHalves = 70000

// gradientsOf returns the gradients of the sum of output y with respect to all float inputs, in
// order. All of them are of type d.
func gradientsOf(t *testing.T, text string, d graph.DType, in map[string]*executor.Tensor) []*executor.Tensor {
	t.Helper()
	m := (&gradCase{Graph: text, Name: "gradients", Opset: 20}).parse(t)
	opts := autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}}, Wrt: []string{}}
	for _, i := range m.Graph.Inputs {
		if i.Type.DType.IsFloat() {
			opts.Wrt = append(opts.Wrt, m.Graph.Values[i.Value].Name)
		}
	}
	j, err := autograd.Differentiate(m, opts)
	require.NoError(t, err)
	env := symbolic.Env{"Many": manyHalves}
	y := newRunner(t, m, env)(in)[0]
	ones := make([]float64, y.Len())
	for i := range ones {
		ones[i] = 1
	}
	joint := map[string]*executor.Tensor{"y" + autograd.SeedSuffix: floatTensor(d, y.Shape, ones...)}
	for name, x := range in {
		joint[name] = x
	}
	return newRunner(t, j.Model, env)(joint)[len(m.Graph.Outputs):]
}

// floatTensor makes a tensor of a float type.
func floatTensor(d graph.DType, shape []int, elems ...float64) *executor.Tensor {
	n, _ := executor.Bytes(d, shape)
	x := &executor.Tensor{DType: d, Shape: shape, Data: executor.Memory(make([]uint64, (n+7)/8))[:n]}
	for i, v := range elems {
		switch d {
		case graph.Float64:
			executor.Of[float64](x)[i] = v
		case graph.Float32:
			executor.Of[float32](x)[i] = float32(v)
		case graph.Float16:
			executor.Of[uint16](x)[i] = uint16(half.Float16From(float32(v)))
		default:
			executor.Of[uint16](x)[i] = uint16(half.BFloat16From(float32(v)))
		}
	}
	return x
}

func floatElems(x *executor.Tensor) []float64 {
	var out []float64
	for i := range x.Len() {
		switch x.DType {
		case graph.Float64:
			out = append(out, executor.Of[float64](x)[i])
		case graph.Float32:
			out = append(out, float64(executor.Of[float32](x)[i]))
		case graph.Float16:
			out = append(out, float64(half.Float16(executor.Of[uint16](x)[i]).Float32()))
		default:
			out = append(out, float64(half.BFloat16(executor.Of[uint16](x)[i]).Float32()))
		}
	}
	return out
}

// TestKinks: the subgradients that the package's comment lists. The wanted numbers are those of
// torch 1.13 for the function of the same name; those of float attributes that have no exact value
// are rounded.
func TestKinks(t *testing.T) {
	inf := math.Inf(1)
	type list = []float64
	for _, c := range []struct {
		call string
		in   []list
		want []list
	}{
		{"Abs(a)", []list{{-1, 0, 1}}, []list{{-1, 0, 1}}},
		{"Relu(a)", []list{{-1, 0, 1}}, []list{{0, 0, 1}}},
		{"TopK<axis=0>(a, k)", []list{{1, 1, 0}}, []list{{1, 0, 0}}},
		{"MaxPool<kernel_shape=[3]>(pool)", []list{{1, 1, 0}}, []list{{1, 0, 0}}},
		{"GlobalMaxPool(pool)", []list{{0, 1, 1}}, []list{{0, 1, 0}}},
		{"LeakyRelu<alpha=0.25>(a)", []list{{-1, 0, 1}}, []list{{0.25, 0.25, 1}}},
		{"Elu<alpha=0.5>(a)", []list{{-1, 0, 1}}, []list{{0.18393972058572117, 0.5, 1}}},
		{"Selu(a)", []list{{0}}, []list{{1.7580993408473766}}},
		{"Celu<alpha=0.5>(a)", []list{{0}}, []list{{1}}},
		{"Clip(a, lo, hi)", []list{{-2, -1, 0, 1, 2}}, []list{{0, 1, 1, 1, 0}}},
		{"Clip(a, b, c)", []list{{-2}, {-1}, {1}}, []list{{0}, {1}, {0}}},
		{"Clip(a, b, c)", []list{{-1}, {-1}, {1}}, []list{{1}, {0}, {0}}},
		{"Clip(a, b, c)", []list{{2}, {-1}, {1}}, []list{{0}, {0}, {1}}},
		{"Clip(a, b, c)", []list{{0}, {1}, {-1}}, []list{{0}, {0}, {1}}},
		{"Clip(a, b, c)", []list{{0}, {1}, {1}}, []list{{0}, {0}, {0}}},
		{"Clip(a, b, c)", []list{{2}, {1}, {1}}, []list{{0}, {0}, {1}}},
		{"HardSigmoid<alpha=0.25>(a)", []list{{-2, -1, 2}}, []list{{0, 0.25, 0}}},
		{"HardSwish(a)", []list{{-4, -3, 0, 3, 4}}, []list{{0, -0.5, 0.5, 1.5, 1}}},
		{"Max(a, b)", []list{{1, 2, 3}, {1, 3, 2}}, []list{{0.5, 0, 1}, {0.5, 1, 0}}},
		{"Min(a, b)", []list{{1, 2, 3}, {1, 3, 2}}, []list{{0.5, 1, 0}, {0.5, 0, 1}}},
		{"Max(a, b, c)", []list{{1, 2, 1}, {1, 2, 1}, {1, 1, 2}}, []list{{0.25, 0.5, 0}, {0.25, 0.5, 0}, {0.5, 0, 1}}},
		{"ReduceMax(a)", []list{{1, 3, 3}}, []list{{0, 0.5, 0.5}}},
		{"ReduceMin(a)", []list{{1, 1, 1}}, []list{{1. / 3, 1. / 3, 1. / 3}}},
		{"ReduceProd(a)", []list{{2, 3, 4}}, []list{{12, 8, 6}}},
		{"ReduceProd(a)", []list{{0, 3, 4}}, []list{{12, 0, 0}}},
		{"ReduceProd(a)", []list{{0, 0, 4}}, []list{{0, 0, 0}}},
		{"ReduceL2(a)", []list{{0, 0}}, []list{{0, 0}}},
		{"ReduceL2(a)", []list{{3, 4}}, []list{{0.6, 0.8}}},
		{"ReduceL1(a)", []list{{0, 3, -4}}, []list{{0, 1, -1}}},
		{"Pow(a, zero)", []list{{0, 2}}, []list{{0, 0}}},
		{"Pow(a, one)", []list{{0, 2}}, []list{{1, 1}}},
		{"Pow(a, two)", []list{{0, 2}}, []list{{0, 4}}},
		{"Pow(a, three)", []list{{0, 2}}, []list{{0, 12}}},
		{"Pow(a, quarter)", []list{{0, 1}}, []list{{inf, 0.25}}},
		{"Pow(a, b)", []list{{0, 0, 0, 2, 0}, {0, 1, 2, 3, 0.5}},
			[]list{{0, 1, 0, 12, inf}, {0, 0, 0, 5.545177444479562, 0}}},
		{"Pow(a, b)", []list{{0, 2}, {-1, -1}}, []list{{-inf, -0.25}, {-inf, 0.34657359027997264}}},
		{"PRelu(a, b)", []list{{-1, 0, 2}, {0.25, 0.25, 0.25}}, []list{{0.25, 0.25, 1}, {-1, 0, 0}}},
		{"ThresholdedRelu(a)", []list{{0.5, 1, 2}}, []list{{0, 0, 1}}},
		{"Shrink<bias=0.5>(a)", []list{{-1, -0.5, 0.5, 1}}, []list{{1, 0, 0, 1}}},
		{"Mod<fmod=1>(a, b)", []list{{5, -5, 4}, {3, 3, 2}}, []list{{1, 1, 1}, {-1, 1, -2}}},
		{"Sqrt(a)", []list{{0, 4}}, []list{{inf, 0.25}}},
		// Far out, where e^x is not finite: the slopes' limits.
		{"Softplus(a)", []list{{-800, 800}}, []list{{0, 1}}},
		{"Mish(a)", []list{{-800, 800}}, []list{{0, 1}}},
		{"Gelu(a)", []list{{-800, 800}}, []list{{0, 1}}},
		{`Gelu<approximate="tanh">(a)`, []list{{-800, 800}}, []list{{0, 1}}},
		{"Sigmoid(a)", []list{{-800, 800}}, []list{{0, 0}}},
		{"Elu(a)", []list{{-800, 800}}, []list{{0, 1}}},
		{"com.microsoft.QuickGelu(a)", []list{{-800, 800}}, []list{{0, 1}}},
	} {
		t.Run(c.call, func(t *testing.T) {
			inputs, in := "", map[string]*executor.Tensor{}
			for i, x := range c.in {
				name := string("abc"[i])
				inputs += fmt.Sprintf(", double[%d] %s", len(x), name)
				in[name] = floatTensor(graph.Float64, []int{len(x)}, x...)
			}
			text := fmt.Sprintf(
				`g (%s) => (double[] y) <double lo = {-1}, double hi = {1}, double zero = {0}, double one = {1}, double two = {2}, double three = {3},
				double quarter = {0.25}, int64[1] k = {1}, int64[3] plane = {1, 1, -1}> { pool = Reshape(a, plane)  y = %s }`, inputs[2:], c.call)
			for i, g := range gradientsOf(t, text, graph.Float64, in) {
				for k, got := range floatElems(g) {
					if want := c.want[i][k]; got != want && !(math.Abs(got-want) < 1e-7) {
						t.Errorf("the gradient of input %d is %v, wanted %v", i, floatElems(g), c.want[i])
					}
				}
			}
		})
	}
}

// TestFloatTypes: in the narrower types the rules give what they give in float64, but for rounding.
func TestFloatTypes(t *testing.T) {
	calls := []string{"Abs(a)", "Acos(s)", "Acosh(p)", "Add(a, b)", "Asin(s)", "Asinh(a)", "Atan(a)", "Atanh(s)",
		"Celu<alpha=2.0>(a)", "Clip(a, lo, hi)",
		"Cos(a)", "Cosh(a)", "Div(a, p)", "Elu(a)", "Erf(a)", "Exp(a)", "Gelu(a)", `Gelu<approximate="tanh">(a)`,
		"HardSigmoid(a)", "HardSwish(a)", "LeakyRelu(a)",
		"Log(p)", "Max(a, b)", "Mean(a, b)", "Min(a, b)", "Mish(a)", "Mul(a, b)", "Neg(a)", "PRelu(a, b)",
		"Pow(p, two)", "Pow(p, b)", "Reciprocal(p)",
		"Selu(a)", "Shrink(a)", "Sigmoid(a)", "Sin(a)", "Sinh(a)", "Softplus(a)", "Softsign(a)", "Sqrt(p)", "Sub(a, b)",
		"Sum(a, b)", "Tan(s)", "Tanh(a)",
		"ThresholdedRelu(a)", "com.microsoft.BiasGelu(a, v)", "com.microsoft.FastGelu(a, v)",
		"com.microsoft.BiasAdd(a, v, b)", "com.microsoft.QuickGelu(a)",
		"com.microsoft.Scale(a, lo)", "com.microsoft.ScaledSum(a, b)",
		"ReduceL1(a)", "ReduceL2(a)", "ReduceLogSum(p)", "ReduceLogSumExp(a)", "ReduceMax(a)", "ReduceMean(a)",
		"ReduceMin(a)", "ReduceProd(a)", "ReduceSum(a)",
		"ReduceSumSquare(a)", "CumSum(a, axis)", "TopK(a, k)"}
	names := map[graph.DType]string{graph.Float32: "float", graph.Float16: "float16", graph.BFloat16: "bfloat16",
		graph.Float64: "double"}
	data := map[string][]float64{"a": {-1.5, 0.5, 2.25, -0.75, 1.125, 0.25}, "b": {0.5, 1.75, -1, 0.125, -2, 1},
		"p": {1.5, 2, 3.25, 1.25, 2.5, 1.75},
		"s": {-0.5, 0.25, 0.75, -0.125, 0.5, 0.625}, "v": {0.5, -0.25, 1}}
	for _, call := range calls {
		gradients := map[graph.DType][]*executor.Tensor{}
		for _, d := range []graph.DType{graph.Float64, graph.Float32, graph.Float16, graph.BFloat16} {
			in := map[string]*executor.Tensor{}
			for name, x := range data {
				shape := []int{2, 3}
				if name == "v" {
					shape = shape[1:]
				}
				in[name] = floatTensor(d, shape, x...)
			}
			n := names[d]
			text := fmt.Sprintf(
				`g (%s[2, 3] a, %s[2, 3] b, %s[2, 3] p, %s[2, 3] s, %s[3] v) => (%s[X, Y] y) <float one = {1}, float m = {-1}, float t = {2}, int64 axis = {1}, int64[1] k = {2}>
				{ hi = Cast<to=%d>(one)  lo = Cast<to=%d>(m) two = Cast<to=%d>(t) y = %s }`, n, n, n, n, n, n, d, d, d, call)
			t.Run(call+" "+n, func(t *testing.T) {
				gradients[d] = gradientsOf(t, text, d, in)
				tol := map[graph.DType]float64{graph.Float64: 0, graph.Float32: 1e-5, graph.Float16: 1e-2,
					graph.BFloat16: 6e-2}[d]
				for i, g := range gradients[d] {
					want := floatElems(gradients[graph.Float64][i])
					for k, got := range floatElems(g) {
						if !(math.Abs(got-want[k]) <= tol*(1+math.Abs(want[k]))) {
							t.Errorf("the gradient of input %d is %v, in float64 %v", i, floatElems(g), want)
						}
					}
				}
			})
		}
	}
}

// TestManyHalves: float16 ends at 65504, and more elements than that are counted all the same.
func TestManyHalves(t *testing.T) {
	in := map[string]*executor.Tensor{"x": floatTensor(graph.Float16, []int{manyHalves})}
	for _, call := range []string{"ReduceMax(x)", "ReduceMean(x)"} {
		for _, dim := range []string{"70000", "Many"} {
			g := gradientsOf(t, fmt.Sprintf(`g (float16[%s] x) => (float16[1] y) { y = %s }`, dim, call),
				graph.Float16, in)
			require.InDelta(t, 1./manyHalves, floatElems(g[0])[manyHalves/2], 1e-7, call)
		}
	}
}

// TestNothingCounts: where all labels are ignored a mean is no number, and its gradients are zeros,
// as PyTorch's. More labels than float16 can count are counted all the same.
func TestNothingCounts(t *testing.T) {
	for _, loss := range []string{"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"} {
		for _, args := range []string{`<ignore_index = -100>(x, l)`, `<ignore_index = -100>(x, l, w)`,
			`<ignore_index = -100, reduction = "sum">(x, l)`} {
			in := map[string]*executor.Tensor{"x": floatTensor(graph.Float64, []int{2, 3}, 1, 2, 3, 4, 5, 6),
				"l": nnInts([]int{2}, -100, -100)}
			g := gradientsOf(t, `g (double[2, 3] x, int64[2] l) => (double y) <double[3] w = {1, 2, 3}> { y = `+
				loss+args+` }`,
				graph.Float64, in)
			require.Equal(t, make([]float64, 6), floatElems(g[0]), loss+args)
		}
		labels := make([]int64, manyHalves)
		labels[0] = -100
		in := map[string]*executor.Tensor{
			"x": floatTensor(graph.Float16, []int{manyHalves, 2}), "l": nnInts([]int{manyHalves}, labels...),
		}
		g := gradientsOf(t, `g (float16[Many, 2] x, int64[Many] l) => (float16 y) { y = `+loss+
			`<ignore_index = -100>(x, l) }`,
			graph.Float16, in)
		want := map[string]float64{"SoftmaxCrossEntropyLoss": 0.5, "NegativeLogLikelihoodLoss": 1}[loss]
		require.InDelta(t, -want/(manyHalves-1), floatElems(g[0])[2], 1e-7, loss)
		require.Zero(t, floatElems(g[0])[0])
	}
}
