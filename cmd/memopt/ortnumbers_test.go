//go:build linux && (amd64 || arm64) && !nodl

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/cmd/memopt/internal/runcmd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/fileio"
	"memopt/planner"
	"memopt/recompute"
)

// ortNumberModels are forward models with what ONNX Runtime's optimizations and kernels treat in a
// way of their own where it is read by others than in the graph as it is: dropout, running
// statistics, and the patterns that it makes one node of.
var ortNumberModels = map[string]string{
	"dropout": `(float[batch, 16] x, float[16, 16] w0, float[16, 16] w1, float[16, 16] w2, float[16, 16] w3) => (float loss)
<float ratio = {0.5}, bool yes = {1}, float gain = {20.0}> {
  y0 = MatMul(x, w0)   m0 = Mul(y0, gain)  t0 = Tanh(m0)  d0, k0 = Dropout<seed = 11>(t0, ratio, yes)
  y1 = MatMul(d0, w1)  m1 = Mul(y1, gain)  t1 = Tanh(m1)  d1, k1 = Dropout<seed = 12>(t1, ratio, yes)
  y2 = MatMul(d1, w2)  m2 = Mul(y2, gain)  t2 = Tanh(m2)  d2, k2 = Dropout(t2, , yes)
  y3 = MatMul(d2, w3)  m3 = Mul(y3, gain)  t3 = Tanh(m3)  d3 = Dropout(t3, ratio, yes)
  sq = Mul(d3, d3)  loss = ReduceMean<keepdims = 0>(sq) }`,
	"dropout of inputs": `(float[batch, 16] x, float[16, 16] w0, float[16, 16] w1, bool training) => (float loss)
<float ratio = {0.3}, int64[2] flat = {-1, 16}> {
  i = Identity(x)  d, k = Dropout(i, ratio, training)  r = Reshape(d, flat)  m0 = MatMul(r, w0)  t0 = Sigmoid(m0)  e, l = Dropout(t0, ratio, training)
  m1 = MatMul(e, w1)  t1 = Sigmoid(m1)  sq = Mul(t1, t1)  loss = ReduceMean<keepdims = 0>(sq) }`,
	"random": `(float[batch, 16] x, float[16, 16] w0, float[16, 16] w1, float[16, 16] w2) => (float loss) {
  m0 = MatMul(x, w0)   t0 = Sigmoid(m0)  r0 = RandomNormalLike(t0)   d0 = Mul(t0, r0)
  m1 = MatMul(d0, w1)  t1 = Sigmoid(m1)  r1 = RandomUniformLike(t1)  d1 = Mul(t1, r1)
  m2 = MatMul(d1, w2)  t2 = Sigmoid(m2)  r2 = Bernoulli(t2)          d2 = Mul(t2, r2)
  sq = Mul(d2, d2)  loss = ReduceMean<keepdims = 0>(sq) }`,
	"running statistics": `(float[batch, 12, 8, 8] x, float[12, 12, 3, 3] w0, float[12, 12, 3, 3] w1, float[12] mean0) => (float loss, float[12] mean0_after, float[12] var0_after)
<float[12] s = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, float[12] o = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, float[12] var0 = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
 float[12] mean1 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, float[12] var1 = {2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> {
  c0 = Conv<pads = [1, 1, 1, 1]>(x, w0)   b0, mean0_after, var0_after = BatchNormalization<training_mode = 1>(c0, s, o, mean0, var0)  t0 = Tanh(b0)
  c1 = Conv<pads = [1, 1, 1, 1]>(t0, w1)  b1, m1, v1 = BatchNormalization<training_mode = 1>(c1, s, o, mean1, var1)  t1 = Tanh(b1)
  c2 = Conv<pads = [1, 1, 1, 1]>(t1, w0)  t2 = Tanh(c2)
  sq = Mul(t2, t2)  loss = ReduceMean<keepdims = 0>(sq) }`,
	"gelu": `(float[batch, 32] x, float[32, 32] w0, float[32] b0, float[32, 32] w1, float[32, 32] w2, float[32] b2, float[32, 32] w3) => (float loss)
<float three = {3.0}, float c = {0.044715}, float r = {0.7978845834732056}, float one = {1.0}, float half = {0.5}, float root = {1.4142135381698608}, float q = {1.702}> {
  m0 = MatMul(x, w0)  a0 = Add(m0, b0)  h0 = Mul(a0, half)  p0 = Pow(a0, three)  c0 = Mul(p0, c)  s0 = Add(a0, c0)  r0 = Mul(s0, r)  t0 = Tanh(r0)  o0 = Add(t0, one)  g0 = Mul(h0, o0)
  a1 = MatMul(g0, w1)  h1 = Mul(half, a1)  c1 = Mul(c, a1)  p1 = Mul(a1, c1)  s1 = Add(one, p1)  q1 = Mul(a1, r)  r1 = Mul(q1, s1)  t1 = Tanh(r1)  o1 = Add(one, t1)  g1 = Mul(o1, h1)
  m2 = MatMul(g1, w2)  a2 = Add(m2, b2)  d2 = Div(a2, root)  e2 = Erf(d2)  o2 = Add(e2, one)  h2 = Mul(a2, half)  g2 = Mul(h2, o2)
  a3 = MatMul(g2, w3)  q3 = Mul(a3, q)  s3 = Sigmoid(q3)  g3 = Mul(a3, s3)
  sq = Mul(g3, g3)  loss = ReduceMean<keepdims = 0>(sq) }`,
	"norms": `(float[batch, 32] x, float[32, 32] w0, float[32] g0, float[32] b0, float[32, 32] w1, float[32] g1, float[32] b1, float[32, 32] w2, float[32] g2) => (float loss)
<float two = {2.0}, float eps = {0.00001}> {
  a0 = MatMul(x, w0)   u0 = ReduceMean<axes = [-1]>(a0)  d0 = Sub(a0, u0)  p0 = Pow(d0, two)  v0 = ReduceMean<axes = [-1]>(p0)  e0 = Add(v0, eps)  s0 = Sqrt(e0)  n0 = Div(d0, s0)  l0 = Mul(n0, g0)  y0 = Add(l0, b0)
  a1 = MatMul(y0, w1)  k1 = Add(a1, y0)  y1 = LayerNormalization(k1, g1, b1)
  a2 = MatMul(y1, w2)  p2 = Pow(a2, two)  v2 = ReduceMean<axes = [-1]>(p2)  e2 = Add(v2, eps)  s2 = Sqrt(e2)  n2 = Div(a2, s2)  y2 = Mul(n2, g2)
  sq = Mul(y2, y2)  loss = ReduceMean<keepdims = 0>(sq) }`,
	"attention": `(float[batch, 8, 16] x, float[16, 48] w, float[48] b, float[16, 16] o, float[16] ob, float[16] g, float[16] s) => (float loss)
<int64[3] parts = {16, 16, 16}, int64[4] heads = {0, 0, 4, 4}, int64[3] flat = {0, 0, 16}, float half = {0.5}, float ratio = {0.25}, bool yes = {1}> {
  n = LayerNormalization(x, g, s)  m = MatMul(n, w)  mb = Add(m, b)  q0, k0, v0 = Split<axis = 2>(mb, parts)
  q1 = Reshape(q0, heads)  q = Transpose<perm = [0, 2, 1, 3]>(q1)  k1 = Reshape(k0, heads)  k = Transpose<perm = [0, 2, 3, 1]>(k1)  v1 = Reshape(v0, heads)  v = Transpose<perm = [0, 2, 1, 3]>(v1)
  qk = MatMul(q, k)  sc = Mul(qk, half)  sm = Softmax<axis = -1>(sc)  dm, km = Dropout(sm, ratio, yes)  c = MatMul(dm, v)
  t = Transpose<perm = [0, 2, 1, 3]>(c)  f = Reshape(t, flat)  y = MatMul(f, o)  yb = Add(y, ob)  dy, ky = Dropout(yb, ratio, yes)  z = Add(x, dy)
  sq = Mul(z, z)  loss = ReduceMean<keepdims = 0>(sq) }`,
	"convolutions": `(float[batch, 8, 8, 8] x, float[8, 8, 3, 3] w0, float[8] b0, float[8, 8, 3, 3] w1, float[8, 8, 3, 3] w2) => (float loss)
<float zero = {0.0}, float six = {6.0}> {
  c0 = Conv<pads = [1, 1, 1, 1]>(x, w0, b0)   r0 = Relu(c0)
  c1 = Conv<pads = [1, 1, 1, 1]>(r0, w1)  a1 = Add(c1, r0)  r1 = Clip(a1, zero, six)
  c2 = Conv<pads = [1, 1, 1, 1]>(r1, w2)  s2 = Sigmoid(c2)  y2 = Mul(c2, s2)
  sq = Mul(y2, y2)  loss = ReduceMean<keepdims = 0>(sq) }`,
}

// tinyModels are the sample models with weights and a loss.
var tinyModels = []string{"cnn_bn_tiny", "gpt2_tiny", "gpt2_tiny_op17_untied", "gru_tiny", "gru_unrolled_tiny",
	"lenet_tiny", "mlp_bce_tiny", "mlp_deep_smooth_tiny", "mlp_dropout_bn_tiny", "mlp_tiny",
	"mobile_tiny", "resmlp_mse_tiny", "resnet_tiny"}

// ortNumberSelections are the plans whose files are run.
var ortNumberSelections = [][]string{{"--level", "1"}, {"--budget", "85%", "--time-limit", "0"}}

// TestORTNumbers runs training graphs in stock ONNX Runtime, as they are and as apply writes them,
// at every level of optimization: the outputs of two steps are the same, within rounding, and the
// first is the CPU device's where nothing is drawn.
func TestORTNumbers(t *testing.T) {
	needORT(t)
	library, err := ort.Open(ort.Candidates(os.Getenv))
	require.NoError(t, err)
	for name, text := range ortNumberModels {
		t.Run(name, func(t *testing.T) {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g `+text, name)
			require.NoError(t, err)
			model := filepath.Join(t.TempDir(), "model.onnx")
			require.NoError(t, onnx.WriteFile(model, m, onnx.Options{}))
			ortNumbers(t, library, model, "", "--dim", "batch=6")
		})
	}
	for _, name := range tinyModels {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join("../../../shared/models", name)
			if _, err := os.Stat(folder); err != nil {
				t.Skip("the sample models beside the repository are missing: ", err)
			}
			ortNumbers(t, library, filepath.Join(folder, "model.onnx"), filepath.Join(folder, "test_data_set_0"))
		})
	}
}

// ortNumbers holds the files that apply writes for a model to the graph as it is.
func ortNumbers(t *testing.T, library *ort.Library, model, data string, flags ...string) {
	applied := false
	for _, selection := range ortNumberSelections {
		applied = ortPlanned(t, library, model, data, append(flags, selection...)) || applied
	}
	require.True(t, applied, "no plan changes anything")
}

// ortPlanned holds the file that apply writes with given flags to the graph as it is. It reports
// whether the two differ.
func ortPlanned(t *testing.T, library *ort.Library, model, data string, flags []string) bool {
	x := ortExecution(t, model, data, flags)
	require.True(t, slices.ContainsFunc(x.Baseline.Model.Graph.Outputs, func(d graph.Decl) bool {
		return strings.HasSuffix(x.Baseline.Model.Graph.Values[d.Value].Name, "_grad")
	}) || slices.Contains(flags, "--optimizer"), "it has no gradients")
	for _, level := range []ort.Level{ort.Disable, ort.Basic, ort.Extended, ort.All} {
		want := ortOutputs(t, library, x.Baseline, x.Inputs, level)
		if level == ort.Disable && !random(x.Baseline.Model.Graph) {
			run, err := verify.Execute(t.Context(), x.Baseline, x.Inputs,
				verify.Options{Engine: verify.On(cpu.Device{})})
			require.NoError(t, err)
			for i, o := range run.Outputs {
				requireNear(t, want[0][i], ort.Named{Name: o.Name, Tensor: o.Tensor}, 1e-3,
					fmt.Sprintf("%v, the runtime beside the CPU device", flags))
			}
		}
		for step, outputs := range ortOutputs(t, library, x.Planned, x.Inputs, level) {
			for i, o := range outputs {
				requireNear(t, o, want[step][i], 2e-5,
					fmt.Sprintf("%v, optimizations %s, step %d", flags, level, step))
			}
		}
	}
	return x.Changed()
}

func random(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return op.Of(n.Kind).Random })
}

// ortExecution prepares what verify runs with -e ort.
func ortExecution(t *testing.T, model, data string, args []string) *runcmd.Execution {
	t.Helper()
	a := &cli.App{Stdio: cli.Stdio{In: nil, Out: io.Discard, Err: os.Stderr}, Ctx: t.Context(), Files: &fileio.Ledger{}}
	a.Global.Quiet = true
	sel := option.SelectionFlags{}
	ex := option.ExecFlags{EngineFlags: option.EngineFlags{Backend: cli.OrtName}, Differentiate: true, DataDir: data,
		Init: "random:1"}
	set := pflag.NewFlagSet("verify", pflag.ContinueOnError)
	sel.RegisterGraph(set)
	set.StringArrayVar(&a.Global.Dims, "dim", nil, "")
	require.NoError(t, set.Parse(args))
	x, err := runcmd.PrepareExecution(a, model, &sel, &ex, stock, option.Planning{})
	if errors.Is(err, planner.ErrInfeasible) {
		x = ortExecution(t, model, data, append(args[:len(args)-4:len(args)-4], "--level", "0"))
		return x
	}
	require.NoError(t, err)
	t.Cleanup(func() { x.Of.Close() })
	require.NoError(t, x.Generate(&ex, 0, stock))
	return x
}

// ortOutputs runs two steps of a side and returns what they give. What the runtime is given stays
// as it is.
func ortOutputs(
	t *testing.T, library *ort.Library, side verify.Side, inputs map[string]*executor.Tensor, level ort.Level,
) (out [2][]ort.Named) {
	t.Helper()
	var model bytes.Buffer
	require.NoError(t, onnx.Write(&model, recompute.Seed(side.Model, 0)))
	session, err := library.NewSessionBytes(model.Bytes(), ort.Options{Optimization: level, Threads: 1})
	require.NoError(t, err, "%s", level)
	defer session.Close()
	given := ortengine.Inputs(side, inputs)
	for i := range given {
		given[i].Tensor = &executor.Tensor{DType: given[i].Tensor.DType, Shape: given[i].Tensor.Shape,
			Data: bytes.Clone(given[i].Tensor.Data)}
	}
	feed, err := session.Feed(given)
	require.NoError(t, err)
	defer feed.Close()
	for step := range out {
		results, err := session.Run(feed)
		require.NoError(t, err, "%s", level)
		for i, name := range session.Outputs() {
			tensor, err := results.Copy(i)
			require.NoError(t, err)
			out[step] = append(out[step], ort.Named{Name: name, Tensor: tensor})
		}
		results.Close()
	}
	for _, in := range given {
		require.True(t, bytes.Equal(inputs[in.Name].Data, in.Tensor.Data), "%s: input %q has been written to",
			level, in.Name)
	}
	return out
}

// requireNear holds floats to others within a share of the largest, all else to equality.
func requireNear(t *testing.T, got, want ort.Named, share float64, where string) {
	t.Helper()
	require.Equal(t, want.Name, got.Name)
	if want.Tensor.DType != graph.Float32 {
		require.Equal(t, want.Tensor.DType, got.Tensor.DType, "%s: %s", where, want.Name)
		require.Equal(t, want.Tensor.Data, got.Tensor.Data, "%s: %s", where, want.Name)
		return
	}
	a, b := executor.Of[float32](got.Tensor), executor.Of[float32](want.Tensor)
	require.Len(t, a, len(b))
	most := 1e-3
	for _, w := range b {
		if x := math.Abs(float64(w)); x > most { // no NaN
			most = x
		}
	}
	for i, w := range b {
		if d := math.Abs(float64(a[i]) - float64(w)); !(d <= share*most) && (a[i] == a[i] || w == w) {
			require.FailNow(t, "numbers differ", "%s: element %d of %s is %v, wanted %v; the largest is %v",
				where, i, want.Name, a[i], w, most)
		}
	}
}
