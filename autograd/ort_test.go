package autograd_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/symbolic"
)

// foreign are forward models whose training graphs stock ONNX Runtime runs, too.
var foreign = map[string]string{
	"classifier": `g (float[N, 8] x, int64[N] labels, float[16, 8] w, float[16] b, float[5, 16] v, float[5] c) => (float loss, float[N, 5] scores) {
		h = Gemm<transB = 1>(x, w, b)  r = Relu(h)  scores = Gemm<transB = 1>(r, v, c)  loss = SoftmaxCrossEntropyLoss(scores, labels) }`,
	"convolutions": `g (float[N, 3, 10, 10] x, int64[N] labels, float[4, 3, 3, 3] w, float[4] scale, float[4] shift, float[4] mean, float[4] var, float[6, 4] v) => (float loss) {
		h = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w)  n, m2, v2 = BatchNormalization<training_mode = 1>(h, scale, shift, mean, var)  r = Relu(n)
		p = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(r)  a = GlobalAveragePool(p)  f = Flatten(a)  scores = Gemm<transB = 1>(f, v)
		loss = SoftmaxCrossEntropyLoss(scores, labels) }`,
	"attention": `g (int64[N, S] ids, int64[N, S] labels, float[20, 8] e, float[8] scale, float[8] shift, float[8, 24] w, float[8, 20] o) => (float loss) <int64[3] flat = {0, 0, 8}, int64[2] rows = {-1, 20}, int64[1] all = {-1}, float root = {0.35}> {
		x = Gather(e, ids)  n = LayerNormalization<axis = -1>(x, scale, shift)  qkv = MatMul(n, w)  q, k, v = Split<axis = 2>(qkv)  kt = Transpose<perm = [0, 2, 1]>(k)
		s = MatMul(q, kt)  t = Mul(s, root)  p = Softmax<axis = -1>(t)  y = MatMul(p, v)  z = Add(x, y)  l = MatMul(z, o)  u = Reshape(l, rows)  t2 = Reshape(labels, all)
		loss = SoftmaxCrossEntropyLoss(u, t2) }`,
	"recurrent": `g (float[S, N, 4] x, float[1, 20, 4] w, float[1, 20, 5] r, float[1, 40] b) => (float loss) {
		y, h, c = LSTM<hidden_size = 5>(x, w, r, b)  q = Mul(y, y)  loss = ReduceMean<keepdims = 0>(q) }`,
	"loop": `g (float[S, 4] x, float[4] w, float[4] v) => (float loss) <int64 three = {3}, bool yes = {1}> {
		a, b, rows = Loop<body = b (int64 i, bool c, float[S, 4] s, float[S, 4] t) => (bool c2, float[S, 4] s2, float[S, 4] t2, float[S, 4] row) {
			c2 = Identity(c)  p = Mul(s, t)  q = Mul(t, w)  s2 = Tanh(p)  even = Less(i, three)
			t2 = If<then_branch = y () => (float[S, 4] y1) { m = Mul(s, q)  y1 = Sin(m) }, else_branch = n () => (float[S, 4] n1) { m = Mul(q, v)  n1 = Identity(m) }>(even)
			row = Mul(s2, t2) }>(three, yes, x, x)
		sum = Sum(a, b)  q = ReduceSumSquare<keepdims = 0>(rows)  l = ReduceMean<keepdims = 0>(sum)  loss = Add(l, q) }`,
	"stretched": `g (float[N, 4] x, float[P, 4] one, float[S, 4] some) => (float loss) {
		a = Mul(x, one)  b = Mul(one, a)  row = ReduceSum<keepdims = 1>(some)  c = Mul(b, row)  loss = ReduceMean<keepdims = 0>(c) }`,
	"tied": `g (int64[N, S] ids, float[20, 8] w, float[5, 20] v) => (float loss) <int64[2] flat = {-1, 8}, int64[4, 1] at = {3, 0, 3, 2}> {
		h = Gather(w, ids)  f = Reshape(h, flat)  t = Transpose(w)  s = MatMul(f, t)  p = Softmax(s)  m = MatMul(v, w)  n = GatherND(w, at)
		a = ReduceSumSquare<keepdims = 0>(p)  b = ReduceSumSquare<keepdims = 0>(m)  c = ReduceSumSquare<keepdims = 0>(n)  loss = Sum(a, b, c) }`,
	"parts": `g (float[N, S, 8] x, int64[N, S] labels, float[8, 20] w, float[20] b, float[16, 16] v) => (float loss, float[N, ?, 20] scores) <
			int64[1] o = {0}, int64[1] m = {4}, int64[1] e = {9223372036854775807}, int64[1] a = {1}, int64[1] l = {-1}, int64[2] rows = {-1, 20}> {
		p = Slice(x, o, m, l)  q = Slice(x, m, e, l)  n = Neg(q)  r = Concat<axis = -1>(n, p)  h = Add(x, r)
		k = MatMul(h, w)  i = Add(k, b)  scores = Slice(i, o, l, a)  t = Slice(labels, a, e, a)
		u = Reshape(scores, rows)  z = Reshape(t, l)  f = SoftmaxCrossEntropyLoss(u, z)
		c = Slice(v, a, e, o)  d = Mul(c, c)  y = Tanh(v)  g = Slice(y, o, l, o)  j = Mul(g, d)  s = ReduceSum<keepdims = 0>(j)  loss = Add(f, s) }`,
	"smooth": `g (float[N, 6] x, float[6, 6] w) => (float loss) {
		h = MatMul(x, w)  a = Tanh(h)  s = Sigmoid(h)  m = Mul(a, s)  e = Erf(m)  n = ReduceL2<axes = [1], keepdims = 1>(e)  d = Div(e, n)  t = Softplus(d)  u = Mul(t, t)  loss = ReduceMean<keepdims = 0>(u) }`,
}

// TestStockRuntime runs training graphs in stock ONNX Runtime and on the CPU executor: the outputs
// agree.
func TestStockRuntime(t *testing.T) {
	dir := os.Getenv("ORT_NODE_DIR")
	if dir == "" {
		t.Skip("ORT_NODE_DIR names no folder with npm's onnxruntime-node: npm install --ignore-scripts " +
			"onnxruntime-node@1.30.0 makes one")
	}
	root := t.TempDir()
	want := map[string][]*executor.Tensor{}
	folders := []string{"testdata/ort.mjs"}
	for name, text := range foreign {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, name)
		require.NoError(t, err)
		for label, outputs := range map[string][]string{name: nil, name + ", the loss alone": {"loss"}} {
			want[label] = prepareForeign(t, m, filepath.Join(root, label),
				symbolic.Env{"N": 3, "S": 4, "P": 1}, outputs)
			folders = append(folders, filepath.Join(root, label))
		}
	}
	out, err := exec.Command("node", folders...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name := range want {
		compareForeign(t, name, filepath.Join(root, name), want[name])
	}
}

// prepareForeign differentiates a model, writes it with made-up inputs, and returns the CPU
// executor's outputs.
func prepareForeign(
	t *testing.T, m *graph.Model, folder string, env symbolic.Env, outputs []string,
) []*executor.Tensor {
	t.Helper()
	inferred(t, m)
	j, err := autograd.Differentiate(m, autograd.Options{AllInputs: true, Outputs: outputs})
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o777))
	require.NoError(t, onnx.WriteFile(filepath.Join(folder, "model.onnx"), j.Model, onnx.Options{}))
	filler := dataset.NewFiller(m.Graph, env, 1)
	inputs := map[string]*executor.Tensor{}
	type item struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Shape []int  `json:"shape"`
		File  string `json:"file"`
	}
	var items []item
	names := map[graph.DType]string{graph.Float32: "float32", graph.Int64: "int64"}
	for i, d := range m.Graph.Inputs {
		name := m.Graph.Values[d.Value].Name
		x, err := filler.Fill(d.Value)
		require.NoError(t, err)
		if x.DType == graph.Float32 {
			for k := range executor.Of[float32](x) { // weights that make gradients of a good size
				executor.Of[float32](x)[k] += 0.3 * float32(math.Sin(float64(7*k+i)))
			}
		}
		inputs[name] = x
		items = append(items, item{name, names[x.DType], x.Shape, fmt.Sprintf("%d.bin", i)})
		require.NoError(t, os.WriteFile(filepath.Join(folder, items[i].File), x.Data, 0o666))
	}
	data, err := json.Marshal(items)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "manifest.json"), data, 0o666))
	return newRunner(t, j.Model, env)(inputs)
}

func compareForeign(t *testing.T, name, folder string, want []*executor.Tensor) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(folder, "error.txt")); err == nil {
		t.Errorf("%s: ONNX Runtime: %s", name, text)
		return
	}
	data, err := os.ReadFile(filepath.Join(folder, "outputs.json"))
	require.NoError(t, err)
	var outs []struct {
		Name string `json:"name"`
		File string `json:"file"`
	}
	require.NoError(t, json.Unmarshal(data, &outs))
	require.Len(t, outs, len(want), name)
	for i, o := range outs {
		raw, err := os.ReadFile(filepath.Join(folder, o.File))
		require.NoError(t, err)
		got, ref := executor.Cast[float32](raw), executor.Of[float32](want[i])
		require.Len(t, got, len(ref), "%s: %s", name, o.Name)
		var largest, worst float64
		for k := range ref {
			largest = max(largest, math.Abs(float64(ref[k])))
			worst = max(worst, math.Abs(float64(ref[k]-got[k])))
		}
		if !(worst <= 1e-6+2e-5*largest) {
			t.Errorf("%s: output %s differs by %g, its largest element is %g", name, o.Name, worst, largest)
		}
	}
}
