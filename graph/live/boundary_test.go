package live_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

const withLoss = `<ir_version: 8, opset_import: ["" : 17]>
g (float[4] x) => (float loss, float[4] x_grad)
{
  [act] a = Tanh (x)
  [mean] loss = ReduceMean <keepdims = 0> (a)
  [side] s = Neg (x)
  [grad] x_grad = Mul (a, s)
}`

func TestRecordedBoundary(t *testing.T) {
	for _, c := range []struct{ record, kind, err string }{
		{"", "loss", ""},
		{`{"schema":"memopt.boundary/v1","kind":"loss","loss":"loss","node":"mean"}`, "recorded", ""},
		// The YieldOp that it speaks of has been taken out: the loss is found anew.
		{`{"schema":"memopt.boundary/v1","kind":"yield","node":"yield"}`, "loss", ""},
		{`{"schema":"memopt.boundary/v1","kind":"loss","loss":"x","node":"n"}`, "",
			`names the loss "x", which no node makes`},
		{`{"schema":"memopt.boundary/v2"}`, "", `wanted JSON of schema "memopt.boundary/v1"`},
		{`not JSON`, "", `wanted JSON of schema "memopt.boundary/v1"`},
	} {
		m, err := graph.Parse(withLoss, "test")
		require.NoError(t, err)
		_, err = op.Infer(m)
		require.NoError(t, err)
		if c.record != "" {
			m.SetMeta(live.BoundaryKey, c.record)
		}
		b, err := live.FindBoundary(m)
		if c.err != "" {
			assert.ErrorContains(t, err, c.err, c.record)
			continue
		}
		require.NoError(t, err, c.record)
		assert.EqualValues(t, c.kind, b.Kind, c.record)
		assert.Equal(t, "mean", m.Graph.NodeLabel(b.Node), c.record)
		// Behind the loss, a node that only reads inputs is backward too.
		assert.Equal(t, []bool{false, false, true, true}, live.Split(m.Graph, b, graph.FileOrder(m.Graph)), c.record)
	}
}

// TestLossIsNoWeight: an updated weight of one element is a scalar that comes from the loss, and is
// none.
func TestLossIsNoWeight(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
g (float[2, 5] x, int64[2] labels, float[1] w) => (float[1] updated)
<int64[1] one = {1}, float[2, 5] p>
{
  [scores] s = Mul (x, w)
  [loss] p = SoftmaxCrossEntropyLoss (s, labels)
  [grad] ds = com.microsoft.SoftmaxCrossEntropyLossGrad (p, labels)
  [m] d = Mul (ds, x)
  [sum] dw = ReduceSum <keepdims = 0> (d)
  [flat] dw1 = Reshape (dw, one)
  [sgd] updated = SGD <lr = 0.1> (w, dw1)
}`, "test")
	require.NoError(t, err)
	_, err = op.InferAsIs(m)
	require.NoError(t, err)
	b, err := live.FindBoundary(m)
	require.NoError(t, err)
	require.Equal(t, "loss", m.Graph.NodeLabel(b.Node))
	require.Equal(t, []bool{false, false, true, true, true, true, true},
		live.Split(m.Graph, b, graph.FileOrder(m.Graph)))
}

// A forward model may make more than its loss: the classes that it finds, their share that is right, and
// nodes whose outputs have no reader. None of them is a gradient.
func TestMetricsAreNoBackwardHalf(t *testing.T) {
	const head = `<ir_version: 8, opset_import: ["" : 20, "com.microsoft" : 1]> `
	for _, c := range []struct {
		name, text string
		training   bool
	}{
		{"classes and their accuracy", `g (float[n, 2] x, int64[n] y) => (float loss, int64[n] classes, float accuracy)
			< float[2, 2] w = {1, 2, 3, 4} > { s = MatMul(x, w)  loss = SoftmaxCrossEntropyLoss(s, y)
			classes = ArgMax<axis = 1, keepdims = 0>(s)  right = Equal(classes, y)
			share = Cast<to = 1>(right)  accuracy = ReduceMean<keepdims = 0>(share) }`, false},
		{"a mean of each class", `g (float[4, 2] x, int64[4] y) => (float loss, float[2] means)
			< float[2, 2] w = {1, 2, 3, 4}, float[2] b = {1, 2}, int64[1] rows = {0} > {
			s = MatMul(x, w)  t = Add(s, b)  loss = SoftmaxCrossEntropyLoss(t, y)
			p = Softmax(t)  means = ReduceMean<keepdims = 0>(p, rows) }`, false},
		{"an output without a reader", `g (float[3, 2] x) => (float loss) < float[2, 2] w = {1, 2, 3, 4} > {
			s = MatMul(x, w)  loss = ReduceMean<keepdims = 0>(s)  lost = Relu(w)  more = Relu(s) }`, false},
		{"a gradient", `g (float[3, 2] x) => (float loss, float[2, 2] dw) < float[2, 2] w = {1, 2, 3, 4} > {
			s = MatMul(x, w)  loss = ReduceMean<keepdims = 0>(s)  u = Transpose(x)  dw = MatMul(u, s) }`, true},
		{"a gradient of a parameter that is an input", `g (float[n, 5] x, float[5, 6] w) => (float loss, float[5, 6] dw) {
			s = MatMul(x, w)  loss = ReduceMean<keepdims = 0>(s)  u = Transpose(x)  dw = MatMul(u, s) }`, true},
		{"an operator of backward halves", `g (float[n, 2] x) => (float loss, float[n, 2] ds)
			< float[2, 2] w = {1, 2, 3, 4} > { s = MatMul(x, w)  y = Gelu(s)  loss = ReduceMean<keepdims = 0>(y)
			ds = com.microsoft.GeluGrad(y, s) }`, true},
	} {
		m, err := graph.Parse(head+c.text, "test")
		require.NoError(t, err, c.name)
		_, err = op.InferAsIs(m)
		require.NoError(t, err, c.name)
		_, err = live.FindBoundary(m)
		if c.training {
			require.NoError(t, err, c.name)
		} else {
			require.ErrorIs(t, err, live.ErrNoBoundary, c.name)
		}
	}
}
