package autograd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// nnInts makes a tensor of int64.
func nnInts(shape []int, v ...int64) *executor.Tensor {
	return &executor.Tensor{DType: graph.Int64, Shape: shape, Data: executor.Memory(v)}
}

// nnInts32 makes a tensor of int32.
func nnInts32(shape []int, v ...int32) *executor.Tensor {
	return &executor.Tensor{DType: graph.Int32, Shape: shape, Data: executor.Memory(v)}
}

// TestSoftmax: every axis, both dialects.
func TestSoftmax(t *testing.T) {
	n := symbolic.Env{"N": 2, "M": 3}
	checkGradients(t, []gradCase{
		{Name: "last", Graph: `g (double[2, 3] x) => (double[2, 3] y) { y = Softmax(x) }`},
		{Name: "first", Graph: `g (double[2, 3, 4] x) => (double[2, 3, 4] y) { y = Softmax<axis = 0>(x) }`},
		{Name: "middle", Graph: `g (double[N, 3, M] x) => (double[N, 3, M] y) { y = Softmax<axis = -2>(x) }`, Dims: n},
		{Name: "coerced", Opset: 11, Graph: `g (double[2, 3, 2] x) => (double[2, 3, 2] y) { y = Softmax(x) }`},
		{Name: "coerced, 0", Opset: 12,
			Graph: `g (double[N, M, 2] x) => (double[N, M, 2] y) { y = Softmax<axis = 0>(x) }`,
			Dims:  n},
		{Name: "coerced, last", Opset: 12,
			Graph: `g (double[N, M, 2] x) => (double[N, M, 2] y) { y = Softmax<axis = -1>(x) }`,
			Dims:  n},
		{Name: "log", Graph: `g (double[2, 3] x) => (double[2, 3] y) { y = LogSoftmax(x) }`},
		{Name: "log, first", Graph: `g (double[N, 3, M] x) => (double[N, 3, M] y) { y = LogSoftmax<axis = 0>(x) }`,
			Dims: n},
		{Name: "log, coerced", Opset: 12, Graph: `g (double[2, 3, 2] x) => (double[2, 3, 2] y) { y = LogSoftmax(x) }`},
		{Name: "log, 18", Opset: 18,
			Graph: `g (double[2, 3, 2] x) => (double[2, 3, 2] y) { y = LogSoftmax<axis = 1>(x) }`},
	})
}

// TestCleanedSoftmax: no gradient passes through rows that are NaN, of keys at -∞ alone, where these are replaced.
func TestCleanedSoftmax(t *testing.T) {
	const head = `g (double[3, 4] x, bool[3, 4] mask, double low) => (double[3, 4] y)
		<double zero = {0}, double one = {1}> {
		m = Where(mask, zero, low)  s = Add(x, m)  `
	in := map[string]*executor.Tensor{
		"low":  executor.NewTensor[float64](graph.Float64, []int{}, math.Inf(-1)),
		"mask": {DType: graph.Bool, Shape: []int{3, 4}, Data: []byte{1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0}}}
	cases := []gradCase{}
	for name, nodes := range map[string]string{
		"by 0":              `p = Softmax(s)  n = IsNaN(p)  y = Where(n, zero, p) }`,
		"by 1":              `p = Softmax(s)  n = IsNaN(p)  y = Where(n, one, p) }`,
		"by 0 of more dims": `p = Softmax(s)  n = IsNaN(p)  w = Where(n, zeros, p)  y = ReduceMax<axes = [0], keepdims = 0>(w) }`,
		"of a copy":         `p = Softmax(s)  q = Identity(p)  n = IsNaN(q)  y = Where(n, zero, q) }`,
		"first axis": `t = Transpose(s)  p = Softmax<axis = 0>(t)
			n = IsNaN(p)  w = Where(n, zero, p)  y = Transpose(w) }`,
		"read further": `p = Softmax(s)  n = IsNaN(p)  w = Where(n, zero, p)  k = Mul(w, p)  o = IsNaN(k)
			v = Where(o, one, w)  y = Mul(v, w) }`,
		"exponentials": `t = ReduceMax<axes = [-1]>(s)  d = Sub(s, t)  e = Exp(d)  a = ReduceSum(e, axes)
			p = Div(e, a)  n = IsNaN(p)  y = Where(n, zero, p) }`,
	} {
		const more = "<int64[1] axes = {-1}, double[1, 1, 1] zeros = {0}, double"
		text := strings.Replace(head, "<double", more, 1) + nodes
		cases = append(cases, gradCase{Name: name, Graph: text, In: in, Wrt: []string{"x"}, Seeds: 1})
	}
	checkGradients(t, cases)
	text := strings.Replace(head, "double", "float", -1) + `c = Cast<to = 10>(s)  p = Softmax(c)  q = Cast<to = 1>(p)
		n = IsNaN(q)  y = Where(n, zero, q) }`
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "half")
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"x"},
		Losses: []autograd.Loss{{Name: "y", Seed: true}}})
	require.NoError(t, err)
	require.Contains(t, graph.Format(j.Model, graph.FormatOptions{}), "Cast <to = 10> (y)")
}

// TestLosses: reductions, weights, ignored labels, the second output, spatial dims, dialects.
func TestLosses(t *testing.T) {
	four := map[string]*executor.Tensor{"l": nnInts([]int{4}, 2, 0, 1, 2)}
	four32 := map[string]*executor.Tensor{"l": nnInts32([]int{4}, 2, 0, 1, 2)}
	ignored := map[string]*executor.Tensor{"l": nnInts([]int{4}, 2, -100, 1, -100)}
	spatial := map[string]*executor.Tensor{"l": nnInts([]int{2, 2}, 2, 0, 1, 2)}
	spatialIgnored := map[string]*executor.Tensor{"l": nnInts([]int{2, 2}, 2, 0, 1, 2)}
	n := symbolic.Env{"N": 4, "C": 3}
	m := symbolic.Env{"N": 2, "C": 3, "D": 2}
	cases := []gradCase{
		{Name: "mean", Graph: `g (double[4, 3] x, int64[4] l) => (double y) { y = %s(x, l) }`, In: four},
		{Name: "int32", Graph: `g (double[4, 3] x, int32[4] l) => (double y) { y = %s(x, l) }`, In: four32},
		{Name: "sum", Graph: `g (double[4, 3] x, int64[4] l) => (double y) { y = %s<reduction = "sum">(x, l) }`,
			In: four},
		{Name: "none", Graph: `g (double[4, 3] x, int64[4] l) => (double[4] y) { y = %s<reduction = "none">(x, l) }`,
			In: four},
		{Name: "weights",
			Graph: `g (double[4, 3] x, int64[4] l) => (double y) <double[3] w = {0.5, 2, 1.5}> { y = %s(x, l, w) }`,
			In:    four},
		{Name: "weights none",
			Graph: `g (double[4, 3] x, int64[4] l) => (double[4] y) <double[3] w = {0.5, 2, 1.5}> { y = %s<reduction = "none">(x, l, w) }`,
			In:    four},
		{Name: "ignored", Graph: `g (double[4, 3] x, int64[4] l) => (double y) { y = %s<ignore_index = -100>(x, l) }`,
			In: ignored},
		{Name: "ignored none",
			Graph: `g (double[4, 3] x, int64[4] l) => (double[4] y) { y = %s<ignore_index = -100, reduction = "none">(x, l) }`,
			In:    ignored},
		{Name: "ignored weights",
			Graph: `g (double[N, C] x, int64[N] l) => (double y) <double[3] w = {0.5, 2, 1.5}> { y = %s<ignore_index = -100>(x, l, w) }`,
			In:    ignored, Dims: n},
		{Name: "ignored weights sum", Opset: 18,
			Graph: `g (double[N, C] x, int64[N] l) => (double y) <double[3] w = {0.5, 2, 1.5}> { y = %s<ignore_index = 2, reduction = "sum">(x, l, w) }`,
			In:    four, Dims: n},
		{Name: "symbolic", Graph: `g (double[N, C] x, int64[N] l) => (double y) { y = %s(x, l) }`, In: four, Dims: n},
		{Name: "spatial", Graph: `g (double[2, 3, 2] x, int64[2, 2] l) => (double y) { y = %s(x, l) }`, In: spatial},
		{Name: "spatial ignored",
			Graph: `g (double[N, C, D] x, int64[N, D] l) => (double y) { y = %s<ignore_index = 0>(x, l) }`,
			In:    spatialIgnored, Dims: m},
		{Name: "spatial none",
			Graph: `g (double[N, C, D] x, int64[N, D] l) => (double[N, D] y) { y = %s<reduction = "none">(x, l) }`,
			In:    spatial, Dims: m},
		{Name: "opset 12", Opset: 12, Graph: `g (double[2, 3, 2] x, int64[2, 2] l) => (double y) { y = %s(x, l) }`,
			In: spatial},
		{Name: "opset 12 matrix", Opset: 12,
			Graph: `g (double[4, 3] x, int64[4] l) => (double y) { y = %s(x, l) }`, In: four},
	}
	for _, name := range []string{"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"} {
		for _, c := range cases {
			c.Name = name + " " + c.Name
			c.Graph = replaceOp(c.Graph, name)
			checkGradients(t, []gradCase{c})
		}
	}
	checkGradients(t, []gradCase{
		{Name: "log-probabilities too",
			Graph: `g (double[4, 3] x, int64[4] l) => (double y, double[4, 3] p) { y, p = SoftmaxCrossEntropyLoss(x, l) }`,
			In:    four},
		{Name: "log-probabilities alone",
			Graph: `g (double[4, 3] x, int64[4] l) => (double[4, 3] q) { y, p = SoftmaxCrossEntropyLoss(x, l)  q = Relu(p)  z = Floor(y) }`,
			In:    four, Range: [2]float64{-2, 2}},
		{Name: "log-probabilities unread",
			Graph: `g (double[4, 3] x, int64[4] l) => (double y) { y, p = SoftmaxCrossEntropyLoss(x, l) }`,
			In:    four},
		{Name: "spatial log-probabilities",
			Graph: `g (double[N, C, D] x, int64[N, D] l) => (double y, double[N, C, D] p) { y, p = SoftmaxCrossEntropyLoss<ignore_index = 0>(x, l) }`,
			In:    spatial, Dims: m},
	})
}

// TestLossInternal: the forms of ORTModule's exporter, whose ignored label is an input and may be left out.
func TestLossInternal(t *testing.T) {
	four := map[string]*executor.Tensor{"l": executor.NewTensor(graph.Int64, []int{4}, int64(2), 0, -7, 1)}
	const head = `<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
		g (double[4, 3] x, double[3] w, int64[4] l) => (double y) `
	for _, c := range []struct{ name, body, fails string }{
		{"ignored", `<int64 i = {-7}> { y, p = com.microsoft.%s(x, l, , i) }`, ""},
		{"weighted sum", `<int64 i = {-7}> { y, p = com.microsoft.%s<reduction = "sum">(x, l, w, i) }`, ""},
		{"index unknown", `{ a = Shape(l)  b = NonZero(a)  c = Size(b)  y, p = com.microsoft.%s(x, l, , c) }`,
			"ignored label"},
	} {
		for _, name := range []string{"SoftmaxCrossEntropyLossInternal", "NegativeLogLikelihoodLossInternal"} {
			body := c.body
			if name == "NegativeLogLikelihoodLossInternal" {
				body = strings.Replace(body, "y, p", "y", 1)
			}
			checkGradients(t, []gradCase{{Name: name + " " + c.name, Graph: head + fmt.Sprintf(body, name), In: four,
				Fails: c.fails}})
		}
	}
	checkGradients(t, []gradCase{
		{Name: "losses and log-probabilities", Graph: `<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
			g (double[4, 3] x, int64[4] l) => (double[4] y, double[4, 3] p)
			{ y, p = com.microsoft.SoftmaxCrossEntropyLossInternal<reduction = "none">(x, l) }`,
			In: map[string]*executor.Tensor{"l": executor.NewTensor(graph.Int64, []int{4}, int64(2), 0, 1, 1)}},
	})
}

// TestBatchNormInternal: the form of ORTModule's optimizer, with the statistics of the batch as further outputs.
func TestBatchNormInternal(t *testing.T) {
	const head = `<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
		g (double[3, 2, 4] x, double[2] s, double[2] b, double[2] m, double[2] v) => (double[3, 2, 4] y`
	checkGradients(t, []gradCase{
		{Name: "unread statistics", Graph: head + `) {
			y, rm, rv, sm, si = com.microsoft.BatchNormInternal<training_mode = 1>(x, s, b, m, v) }`, Tol: 1e-4},
		{Name: "read statistics", Graph: head + `, double[2] sm) {
			y, rm, rv, sm, si = com.microsoft.BatchNormInternal<training_mode = 1>(x, s, b, m, v) }`,
			Wrt: []string{"x", "s", "b"}, Fails: "saved statistics have readers"},
	})
}

// TestLayerNormalization: axes, optional operands, broadcasting, the statistics' type.
func TestLayerNormalization(t *testing.T) {
	n := symbolic.Env{"N": 2, "M": 3}
	checkGradients(t, []gradCase{
		{
			Name:  "last",
			Graph: `g (double[2, 4] x, double[4] s, double[4] b) => (double[2, 4] y) { y = LayerNormalization(x, s, b) }`,
		},
		{Name: "no bias",
			Graph: `g (double[2, 3, 4] x, double[4] s) => (double[2, 3, 4] y) { y = LayerNormalization(x, s) }`},
		{Name: "two axes",
			Graph: `g (double[2, 3, 4] x, double[3, 4] s, double[3, 4] b) => (double[2, 3, 4] y) { y = LayerNormalization<axis = 1, epsilon = 0.1>(x, s, b) }`},
		{Name: "all axes",
			Graph: `g (double[2, 3] x, double[2, 3] s, double[2, 3] b) => (double[2, 3] y) { y = LayerNormalization<axis = 0>(x, s, b) }`},
		{Name: "broadcast",
			Graph: `g (double[2, 3, 4] x, double[3, 1] s, double[1] b) => (double[2, 3, 4] y) { y = LayerNormalization<axis = -2>(x, s, b) }`},
		{Name: "symbolic",
			Graph: `g (double[N, M, 4] x, double[4] s, double[4] b) => (double[N, M, 4] y) { y = LayerNormalization(x, s, b) }`,
			Dims:  n},
		{Name: "symbolic row",
			Graph: `g (double[N, M] x, double[M] s, double[M] b) => (double[N, M] y) { y = LayerNormalization(x, s, b) }`,
			Dims:  n},
		{Name: "18", Opset: 18,
			Graph: `g (double[N, M, 4] x, double[4] s, double[4] b) => (double[N, M, 4] y) { y = LayerNormalization(x, s, b) }`,
			Dims:  n},
		{Name: "data alone",
			Graph: `g (double[2, 4] x, double[4] s, double[4] b) => (double[2, 4] y) { y = LayerNormalization(x, s, b) }`,
			Wrt:   []string{"x"}},
		{Name: "scale alone",
			Graph: `g (double[2, 4] x, double[4] s, double[4] b) => (double[2, 4] y) { y = LayerNormalization(x, s, b) }`,
			Wrt:   []string{"s"}},
	})
}

// TestBatchNormalization: training and running statistics in every dialect.
func TestBatchNormalization(t *testing.T) {
	n := symbolic.Env{"N": 3, "C": 2, "D": 4}
	all := []string{"x", "s", "b"}
	v := &executor.Tensor{DType: graph.Float64, Shape: []int{2}, Data: executor.Memory([]float64{0.5, 2})}
	in := map[string]*executor.Tensor{"v": v, "m": v}
	const static, dynamic = `double[3, 2, 4] x, double[2] s, double[2] b, double[2] m, double[2] v`,
		`double[N, C, D] x, double[C] s, double[C] b, double[C] m, double[C] v`
	checkGradients(t, []gradCase{
		{Name: "training", Opset: 15,
			Graph: `g (` + static +
				`) => (double[3, 2, 4] y) { y, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v) }`,
			In: in, Wrt: all},
		{Name: "training, y alone", Opset: 14,
			Graph: `g (` + static +
				`) => (double[3, 2, 4] y) { y = BatchNormalization<training_mode = 1>(x, s, b, m, v) }`,
			In: in, Wrt: all},
		{Name: "training, symbolic", Opset: 17,
			Graph: `g (` + dynamic +
				`) => (double[N, C, D] y) { y, rm, rv = BatchNormalization<training_mode = 1, epsilon = 0.1>(x, s, b, m, v) }`,
			In: in, Wrt: all, Dims: n},
		{Name: "training, 18", Opset: 18,
			Graph: `g (` + dynamic +
				`) => (double[N, C, D] y) { y, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v) }`,
			In: in, Wrt: all, Dims: n},
		{Name: "training, rank 2",
			Graph: `g (double[N, 2] x, double[2] s, double[2] b, double[2] m, double[2] v) => (double[N, 2] y) { y, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v) }`,
			In:    in, Wrt: all, Dims: n},
		{Name: "training, rank 4",
			Graph: `g (double[N, 2, 2, 3] x, double[2] s, double[2] b, double[2] m, double[2] v) => (double[N, 2, 2, 3] y) { y, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v) }`,
			In:    in, Wrt: all, Dims: n},
		{Name: "training, scale", Opset: 15,
			Graph: `g (` + static +
				`) => (double[3, 2, 4] y) { y, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v) }`,
			In: in, Wrt: []string{"s"}},
		{Name: "training, data", Opset: 15,
			Graph: `g (` + static +
				`) => (double[3, 2, 4] y) { y, rm, rv = BatchNormalization<training_mode = 1>(x, s, b, m, v) }`,
			In: in, Wrt: []string{"x"}},
		{Name: "training, 9", Opset: 9,
			Graph: `g (` + static +
				`) => (double[3, 2, 4] y) { y, rm, rv, sm, sv = BatchNormalization(x, s, b, m, v) }`,
			In: in, Wrt: all},
		{Name: "running", Opset: 15,
			Graph: `g (` + static + `) => (double[3, 2, 4] y) { y = BatchNormalization(x, s, b, m, v) }`,
			In:    in, Wrt: all},
		{Name: "running, symbolic", Opset: 15,
			Graph: `g (` + dynamic + `) => (double[N, C, D] y) { y = BatchNormalization(x, s, b, m, v) }`,
			In:    in, Wrt: all, Dims: n},
		{Name: "running, 9", Opset: 9,
			Graph: `g (` + static + `) => (double[3, 2, 4] y) { y = BatchNormalization(x, s, b, m, v) }`,
			In:    in, Wrt: all},
		{Name: "running, 7", Opset: 7,
			Graph: `g (` + static + `) => (double[3, 2, 4] y) { y = BatchNormalization(x, s, b, m, v) }`,
			In:    in, Wrt: all},
		{Name: "per place", Opset: 7,
			Graph: `g (double[3, 2] x, double[2] s, double[2] b, double[2] m, double[2] v) => (double[3, 2] y) { y = BatchNormalization<spatial = 0>(x, s, b, m, v) }`,
			Fails: "spatial", Wrt: all},
	})
}

// dropoutMode is the tensor of a bool.
func dropoutMode(on byte) *executor.Tensor {
	return &executor.Tensor{DType: graph.Bool, Shape: []int{}, Data: []byte{on}}
}

// TestDropoutIdentity: where nothing is dropped, dropout passes the gradient on.
func TestDropoutIdentity(t *testing.T) {
	ratio := &executor.Tensor{DType: graph.Float64, Shape: []int{}, Data: executor.Memory([]float64{0.25})}
	checkGradients(t, []gradCase{
		{
			Name:  "all",
			Graph: `g (double[4, 6] x) => (double[4, 6] y) <double r = {0}, bool t = {1}> { y = Dropout<seed = 7>(x, r, t) }`,
		},
		{
			Name:  "off",
			Graph: `g (double[4, 6] x) => (double[4, 6] y) <double r = {0.5}, bool t = {0}> { y = Dropout<seed = 7>(x, r, t) }`,
		},
		{Name: "never on",
			Graph: `g (double[4, 6] x) => (double[4, 6] y) <double r = {0.5}> { y = Dropout<seed = 7>(x, r) }`},
		{Name: "no mode, ratio of the data", In: map[string]*executor.Tensor{"r": ratio},
			Graph: `g (double[4, 6] x, double r) => (double[4, 6] y) { y = Dropout<seed = 7>(x, r) }`},
		{Name: "opset 10", Opset: 10, Graph: `g (double[4, 6] x) => (double[4, 6] y) { y = Dropout<ratio = 0.5>(x) }`},
		{Name: "mode given",
			Graph: `g (double[4, 6] x, double r, bool t) => (double[4, 6] y) { y = Dropout<seed = 7>(x, r, t) }`,
			In:    map[string]*executor.Tensor{"r": ratio, "t": dropoutMode(0)}, Wrt: []string{"x"}},
		{Name: "bias and residual",
			Graph: `g (double[4, 6] x, double[6] b, double[4, 6] r) => (double[4, 6] y) { y = com.microsoft.BiasDropout(x, b, r) }`},
		{Name: "bias alone", Opset: 11,
			Graph: `g (double[4, 6] x, double[6] b) => (double[4, 6] y) { y = com.microsoft.BitmaskBiasDropout(x, b) }`},
		{Name: "packed mask",
			Graph: `g (double[4, 6] x) => (double[4, 6] y, uint32[1] m) { y, m = com.microsoft.BitmaskDropout(x) }`,
			Fails: "not made"},
		{Name: "old", Opset: 6, Graph: `g (double[4, 6] x) => (double[4, 6] y) { y = Dropout(x) }`,
			Fails: "training mode"},
	})
}

// TestDropout: y is x times a factor for each element, and so is its gradient. Every run draws
// another mask, so that finite differences say nothing.
func TestDropout(t *testing.T) {
	n := symbolic.Env{"N": 16}
	ratio := &executor.Tensor{DType: graph.Float64, Shape: []int{}, Data: executor.Memory([]float64{0.25})}
	given := map[string]*executor.Tensor{"r": ratio, "t": dropoutMode(1)}
	for _, c := range []gradCase{
		{Name: "training",
			Graph: `g (double[N, 8] x) => (double[N, 8] y) <double r = {0.25}, bool t = {1}> { y = Dropout<seed = 7>(x, r, t) }`},
		{Name: "half", Graph: `g (double[16, 8] x) => (double[16, 8] y) <bool t = {1}> { y = Dropout(x, , t) }`},
		{Name: "mask", Opset: 13,
			Graph: `g (double[16, 8] x) => (double[16, 8] y) <double r = {0.5}, bool t = {1}> { y, m = Dropout(x, r, t) }`},
		{Name: "ratio given",
			Graph: `g (double[16, 8] x, double r, bool t) => (double[16, 8] y) { y = Dropout(x, r, t) }`,
			In:    given, Wrt: []string{"x", "r"}},
		{Name: "ratio given, training fixed",
			Graph: `g (double[16, 8] x, double r) => (double[16, 8] y) <bool t = {1}> { y = Dropout(x, r, t) }`,
			In:    given, Wrt: []string{"x", "r"}},
		{Name: "ratio of one element given, with a bias",
			Graph: `g (double[16, 8] x, double r) => (double[16, 8] y) <bool t = {1}, double[8] b = {0, 0, 0, 0, 0, 0, 0, 0}> { y = com.microsoft.BitmaskBiasDropout(x, b, , r, t) }`,
			In:    given, Wrt: []string{"x", "r"}},
		{Name: "constants",
			Graph: `g (double[16, 8] x) => (double[16, 8] y) { r = Constant<value = double {0.3}>()  t = Constant<value = bool {1}>()  y = Dropout(x, r, t) }`},
		{Name: "bitmask",
			Graph: `g (double[16, 8] x) => (double[16, 8] y) <double r = {0.4}, bool t = {1}> { y = com.microsoft.BitmaskDropout(x, r, t) }`},
		{Name: "with a bias",
			Graph: `g (double[16, 8] x) => (double[16, 8] y) <double r = {0.4}, bool t = {1}, double[8] b = {0, 0, 0, 0, 0, 0, 0, 0}> { y, m = com.microsoft.BiasDropout(x, b, , r, t) }`},
	} {
		t.Run(c.Name, func(t *testing.T) {
			c.Dims = n
			m := c.parse(t)
			if c.Wrt == nil {
				c.Wrt = []string{"x"}
			}
			j, err := autograd.Differentiate(m,
				autograd.Options{Wrt: c.Wrt, Losses: []autograd.Loss{{Name: "y", Seed: true}}})
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(1, 2))
			in := c.inputs(t, m, rng)
			seed := make([]float64, 128)
			for i := range seed {
				seed[i] = rng.NormFloat64()
			}
			in["y"+autograd.SeedSuffix] = &executor.Tensor{
				DType: graph.Float64, Shape: []int{16, 8}, Data: executor.Memory(seed),
			}
			out := newRunner(t, j.Model, n)(in)
			x, y, grad := executor.Of[float64](in["x"]), executor.Of[float64](out[0]), executor.Of[float64](out[1])
			kept, along := 0, 0.0
			for i := range x {
				along += y[i] * seed[i]
				require.InDelta(t, y[i]*seed[i], grad[i]*x[i], 1e-9)
				if y[i] != 0 {
					kept++
				}
			}
			require.True(t, 32 < kept && kept < 128, "%d of 128 kept", kept)
			if len(c.Wrt) > 1 { // kept elements are x/(1-r)
				require.InDelta(t, along/(1-0.25), executor.Of[float64](out[len(out)-1])[0], 1e-9)
			}
		})
	}
}
