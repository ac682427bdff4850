package autograd_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/graph/precision"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// mixed are the precisions that compute in 16 bits beside float32.
var mixed = []precision.Precision{precision.BF16, precision.FP16Mixed}

// checkWidths holds a training graph to the rules of mixed precision: no forward node computes outside of the widths of
// its operator, all products that weights reach are in 16 bits, and inputs, outputs and losses have the types that they
// had, but weights with BF16Pure.
func checkWidths(t *testing.T, m *graph.Model, j *autograd.Joint, p precision.Precision) {
	t.Helper()
	g, low, weight := j.Model.Graph, p.Half(), graph.Float32
	if p == precision.BF16Pure {
		weight = low
	}
	count := 0
	for _, n := range g.Nodes[:j.Backward] {
		if op.Of(n.Kind).Has(op.CastRole) || op.Of(n.Kind).Has(op.ShapeOf) {
			continue
		}
		for i, v := range n.Inputs {
			if v == graph.NoValue || !op.InputWidth(n, j.Model.Opsets, i) {
				continue
			}
			switch d := g.Values[v].Type.DType; {
			case d == low:
				cube := n.Kind == op.Pow // of a GELU by tanh, which has one width
				require.True(t, cube || op.WidthsOf(n.Kind) != op.Wide, "%s (%s) computes in %v", n.Name, n.Op, d)
				count++
			case d == graph.Float32:
				require.NotEqual(t, op.Narrow, op.WidthsOf(n.Kind), "%s (%s) computes in float32", n.Name, n.Op)
			}
		}
		for i, v := range n.Outputs {
			if v != graph.NoValue && g.Values[v].Type.DType == low {
				require.True(t, op.OutputWidth(n, j.Model.Opsets, i), "%s: output %d in 16 bits", n.Name, i)
			}
		}
	}
	require.Positive(t, count, "no node computes in 16 bits")
	for _, d := range slices.Concat(m.Graph.Inputs, m.Graph.Outputs) {
		name := m.Graph.ValueName(d.Value)
		v, ok := g.Lookup(name)
		require.True(t, ok, name)
		if !slices.Contains(j.Wrt, name) {
			require.Equal(t, m.Graph.Values[d.Value].Type.DType, g.Values[v].Type.DType, name)
		}
	}
	for _, name := range j.Wrt {
		v, ok := g.Lookup(name + autograd.GradSuffix)
		require.True(t, ok, name)
		require.Equal(t, weight, g.Values[v].Type.DType, name)
		v, ok = g.Lookup(name)
		require.True(t, ok, name)
		require.Equal(t, weight, g.Values[v].Type.DType, name)
	}
	// The backward half keeps no cast that it can make again from fewer bytes, or from a value that is live anyway, and
	// no float32 value with a copy in 16 bits.
	copied := map[graph.ValueID]bool{}
	for _, n := range g.Nodes[:j.Backward] {
		if op.Of(n.Kind).Has(op.CastRole) && g.Values[n.Outputs[0]].Type.DType == low {
			copied[n.Inputs[0]] = true
		}
	}
	for _, n := range g.Nodes[j.Backward:] {
		for _, v := range n.Inputs {
			if v == graph.NoValue || g.Values[v].Def == graph.NoNode || g.Values[v].Def >= j.Backward {
				continue
			}
			require.False(t, copied[v] && !op.Of(n.Kind).Has(op.ShapeOf), "%s keeps %s", n.Name, g.ValueName(v))
			cast := g.Nodes[g.Values[v].Def]
			if !op.Of(cast.Kind).Has(op.CastRole) || !g.Values[v].Type.DType.IsFloat() {
				continue
			}
			from := &g.Values[cast.Inputs[0]]
			require.NotEqual(t, graph.NoNode, from.Def, "%s keeps %s", n.Name, cast.Name)
			if from.Type.DType.IsFloat() {
				require.GreaterOrEqual(t, from.Type.DType.Bits(), g.Values[v].Type.DType.Bits(), "%s keeps %s", n.Name,
					cast.Name)
			}
		}
	}
	require.NoError(t, graph.Verify(j.Model))
}

// TestMixedModels differentiates exported networks in mixed precision: all rules hold, losses are near those in
// float32, and gradients are near PyTorch's in float64.
func TestMixedModels(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		if s.Name == "gru_tiny" {
			continue // all of it but one product is a recurrence, in float32
		}
		for _, p := range append(mixed[:len(mixed):len(mixed)], precision.BF16Pure) {
			t.Run(s.Name+" "+string(p), func(t *testing.T) { compareMixed(t, s.Folder, p) })
		}
	}
}

func compareMixed(t *testing.T, dir string, p precision.Precision) {
	var meta sampleMeta
	text, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &meta))
	m, file, err := onnx.Open(filepath.Join(dir, "model.onnx"))
	require.NoError(t, err)
	defer file.Close()
	op.Bind(m)
	if meta.Deterministic != nil && !*meta.Deterministic {
		dropNoise(m)
	}
	inferred(t, m)
	opts := autograd.Options{Losses: []autograd.Loss{{Name: meta.Loss}}, Precision: p}
	if meta.Loss == "" {
		opts.Losses[0] = autograd.Loss{Name: "logits", Seed: true}
	}
	for _, p := range meta.Trainable {
		opts.Wrt = append(opts.Wrt, p.Name)
	}
	j, err := autograd.Differentiate(m, opts)
	require.NoError(t, err)
	checkWidths(t, m, j, p)
	if p == precision.BF16Pure {
		require.GreaterOrEqual(t, j.Mixed.Weights, len(j.Wrt))
	}
	again, err := autograd.Differentiate(m, opts)
	require.NoError(t, err)
	require.Equal(t, graph.Format(j.Model, graph.FormatOptions{}), graph.Format(again.Model, graph.FormatOptions{}))
	set, err := dataset.LoadDir(filepath.Join(dir, "test_data_set_0"), m.Graph, nil)
	require.NoError(t, err)
	env := symbolic.Env{}
	for _, in := range meta.Inputs {
		for i, d := range in.Shape {
			if name, ok := d.(string); ok {
				env[name] = int64(set.Inputs[in.Name].Shape[i])
			}
		}
	}
	if meta.Loss == "" {
		set.Inputs["logits"+autograd.SeedSuffix] = crossEntropyGradient(t, set.Outputs[0].Tensor,
			filepath.Join(dir, "grads", "_labels.pb"))
	}
	byName := map[string]*executor.Tensor{}
	results := newRunner(t, j.Model, env)(set.Inputs)
	for i, d := range j.Model.Graph.Outputs {
		byName[j.Model.Graph.ValueName(d.Value)] = results[i]
	}
	if meta.Loss != "" {
		for _, want := range set.Outputs {
			if want.Name == meta.Loss {
				got := executor.Of[float32](byName[meta.Loss])[0]
				require.InEpsilon(t, executor.Of[float32](want.Tensor)[0], got, 0.02)
			}
		}
	}
	var off, all float64 // of all gradients as one vector
	for _, name := range j.Wrt {
		want, err := dataset.ReadTensor(filepath.Join(dir, "grads64", name+".pb"))
		require.NoError(t, err)
		grad := floatElems(byName[name+autograd.GradSuffix])
		for i, x := range executor.Of[float64](want.Tensor) {
			got := grad[i]
			off, all = off+(got-x)*(got-x), all+x*x
		}
	}
	most := 0.08
	if p.Half() == graph.BFloat16 {
		most = 0.25 // its numbers are eight times as far apart
	}
	require.LessOrEqual(t, math.Sqrt(off/all), most)
}

// TestMixedTypes: the types of values in small models, as their rows and the fewest bytes have them.
func TestMixedTypes(t *testing.T) {
	const half, single, double = graph.BFloat16, graph.Float32, graph.Float64
	for _, c := range []struct {
		name, graph string
		want        map[string]graph.DType
		fp16        map[string]graph.DType // where it differs
	}{
		{"product", `g (float[B, 8] x, float[8, 8] w) => (float loss) {
			h = MatMul(x, w)  r = Relu(h)  loss = ReduceMean<keepdims = 0>(r) }`,
			map[string]graph.DType{"h": half, "r": half, "loss": single}, nil},
		{"softmax", `g (float[B, 8] x, float[8, 8] w) => (float loss) {
			h = MatMul(x, w)  p = Softmax(h)  d = Relu(p)  k = MatMul(d, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "p": single, "d": half, "k": half}, nil},
		{"mask that bfloat16 rounds to -inf", `g (float[B, 8] x, float[8, 8] w, bool[B, 8] m) => (float loss)
			<float least = {-3.4028235e38}> {
			h = MatMul(x, w)  s = Where(m, least, h)  p = Softmax(s)  k = MatMul(p, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "s": single, "p": single}, nil},
		{"mask of -1e4", `g (float[B, 8] x, float[8, 8] w, bool[B, 8] m) => (float loss)
			<float least = {-1e4}> {
			h = MatMul(x, w)  s = Where(m, least, h)  k = MatMul(s, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "s": half}, nil},
		{"mask of -1e5", `g (float[B, 8] x, float[8, 8] w, bool[B, 8] m) => (float loss)
			<float least = {-1e5}> {
			h = MatMul(x, w)  s = Where(m, least, h)  k = MatMul(s, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "s": half}, map[string]graph.DType{"s": single}},
		{"mask of -inf", `g (float[B, 8] x, float[8, 8] w, bool[B, 8] m) => (float loss) <float least = {-inf}> {
			h = MatMul(x, w)  s = Where(m, least, h)  r = Relu(s)  k = MatMul(r, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "s": half}, nil},
		{"epsilon that is not normal in float16", `g (float[B, 8] x, float[8, 8] w) => (float loss) <float eps = {1e-6}> {
			h = MatMul(x, w)  s = Add(h, eps)  k = MatMul(s, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "s": half}, map[string]graph.DType{"s": single}},
		{"sines of positions", `g (float[B, 8] x, float[8, 8] w, int64[B, 1] at) => (float loss) <float f = {0.001}> {
			h = MatMul(x, w)  a = Cast<to = 1>(at)  b = Mul(a, f)  s = Sin(b)  y = Mul(h, s)  k = MatMul(y, w)
			loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "a": single, "b": single, "s": single, "y": single, "k": half}, nil},
		{"image of bytes", `g (uint8[B, 8] x, float[8, 8] w) => (float loss) <float f = {0.01}> {
			a = Cast<to = 1>(x)  b = Mul(a, f)  k = MatMul(b, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"a": single, "b": single, "k": half}, nil},
		{"bytes that scale", `g (float[B, 8] x, float[8, 8] w, uint8[B, 8] m) => (float loss) {
			h = MatMul(x, w)  a = Cast<to = 1>(m)  s = Mul(h, a)  k = MatMul(s, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "a": single, "s": half, "k": half}, nil},
		{"embedding", `g (int64[B] x, float[1000, 8] w, float[8, 8] u) => (float loss) {
			a = Gather(w, x)  k = MatMul(a, u)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"a": single, "k": half}, nil},
		{"norm", `g (float[B, 8] x, float[8, 8] w, float[8] s, float[8] b) => (float loss, float[B, 1] mean) {
			h = MatMul(x, w)  y, mean = LayerNormalization(h, s, b)  k = MatMul(y, w)  loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "y": half, "mean": single, "k": half}, nil},
		{"batch norm", `g (float[B, 2, 4] x, float[2, 2, 1] w, float[2] s, float[2] b, float[2] m, float[2] v) => (float loss) {
			h = Conv(x, w)  y, m2, v2 = BatchNormalization<training_mode = 1>(h, s, b, m, v)  k = Conv(y, w)
			loss = ReduceSum<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": half, "y": half, "k": half, "s": single, "m": single}, nil},
		{"output between", `g (float[B, 8] x, float[8, 8] w) => (float loss, float[B, 8] h) {
			h = MatMul(x, w)  r = Relu(h)  k = MatMul(r, w)  loss = ReduceMean<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": single, "r": half, "k": half}, nil},
		{"float64", `g (float[B, 8] x, float[8, 8] w, double[8, 8] u) => (float loss) {
			h = MatMul(x, w)  d = Cast<to = 11>(h)  e = MatMul(d, u)  f = Cast<to = 1>(e)  loss = ReduceMean<keepdims = 0>(f) }`,
			map[string]graph.DType{"h": half, "d": double, "e": double, "f": single}, nil},
		{"a model in float16", `g (float16[B, 8] x, float16[8, 8] w, float[8, 8] u) => (float loss) {
			h = MatMul(x, w)  f = Cast<to = 1>(h)  k = MatMul(f, u)  loss = ReduceMean<keepdims = 0>(k) }`,
			map[string]graph.DType{"h": graph.Float16, "f": single, "k": half}, nil},
		{"a branch", `g (float[B, 8] x, float[8, 8] w, bool c) => (float loss) {
			h = MatMul(x, w)  y = If (c) <then_branch = a () => (float[B, 8] p) { p = Relu(h) },
				else_branch = b () => (float[B, 8] q) { q = Neg(h) }>
			loss = ReduceMean<keepdims = 0>(y) }`,
			map[string]graph.DType{"h": single, "y": single}, nil},
	} {
		for _, p := range mixed {
			t.Run(c.name+" "+string(p), func(t *testing.T) {
				gc := gradCase{Name: c.name, Graph: c.graph, Opset: 22}
				m := gc.parse(t)
				inferred(t, m)
				opts := autograd.Options{Losses: []autograd.Loss{{Name: "loss"}}, Wrt: []string{}, Precision: p}
				for _, d := range m.Graph.Inputs {
					if name := m.Graph.ValueName(d.Value); d.Type.DType == single && len(name) == 1 && name != "x" &&
						name != "m" && name != "v" {
						opts.Wrt = append(opts.Wrt, name)
					}
				}
				j, err := autograd.Differentiate(m, opts)
				require.NoError(t, err)
				checkWidths(t, m, j, p)
				for name, want := range c.want {
					if other, ok := c.fp16[name]; ok && p == precision.FP16Mixed {
						want = other
					}
					if want == half {
						want = p.Half()
					}
					v, ok := j.Model.Graph.Lookup(name)
					require.True(t, ok, name)
					require.Equal(t, want, j.Model.Graph.Values[v].Type.DType, name)
				}
			})
		}
	}
}

// TestMixedTraining: a net that is trained in mixed precision, with a loss scale and without, has the losses of
// float32, and its updates wait for the norm with gradients in 16 bits.
func TestMixedTraining(t *testing.T) {
	gc := gradCase{Graph: `g (float[16, 8] x, int64[16] y, float[8, 32] w, float[32] b, float[32, 4] u) => (float loss) {
		h = MatMul(x, w)  k = Add(h, b)  r = Tanh(k)  z = MatMul(r, u)  loss = SoftmaxCrossEntropyLoss(z, y) }`}
	train := func(p precision.Precision, scale string) []float32 {
		m := gc.parse(t)
		inferred(t, m)
		j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w", "b", "u"}, Precision: p,
			LossScale: scale, LossOutput: true})
		require.NoError(t, err)
		require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "sgd", LR: 0.5, MaxNorm: 1}))
		if p != precision.AsIs {
			late := 0
			for _, n := range j.Model.Graph.Nodes {
				if op.Of(n.Kind).Has(op.CastRole) && strings.HasPrefix(n.Name, "/optimizer/") &&
					j.Model.Graph.Values[n.Inputs[0]].Type.DType == p.Half() {
					late++
				}
			}
			require.GreaterOrEqual(t, late, 3)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		in := map[string]*executor.Tensor{}
		for _, d := range j.Model.Graph.Inputs {
			shape := executor.EvalShape(d.Type, nil)
			n, _ := executor.Bytes(d.Type.DType, shape)
			x := &executor.Tensor{DType: d.Type.DType, Shape: shape, Data: executor.Memory(make([]int64, (n+7)/8))[:n]}
			switch name := j.Model.Graph.ValueName(d.Value); {
			case name == scale:
				executor.Of[float32](x)[0] = 1024
			case d.Type.DType == graph.Int64:
				for i := range executor.Of[int64](x) {
					executor.Of[int64](x)[i] = int64(rng.IntN(4))
				}
			default:
				for i := range executor.Of[float32](x) {
					executor.Of[float32](x)[i] = float32(rng.NormFloat64()) / 2
				}
			}
			in[j.Model.Graph.ValueName(d.Value)] = x
		}
		run := newRunner(t, j.Model, nil)
		var losses []float32
		for range 40 {
			outs := run(in)
			for i, d := range j.Model.Graph.Outputs {
				name := j.Model.Graph.ValueName(d.Value)
				if state, ok := strings.CutSuffix(name, autograd.NewSuffix); ok {
					in[state] = outs[i]
				} else if name == "loss" {
					losses = append(losses, executor.Of[float32](outs[i])[0])
				}
			}
		}
		return losses
	}
	exact := train(precision.AsIs, "")
	require.Less(t, exact[39], exact[0]/2, "the net learns")
	for _, p := range mixed {
		for _, scale := range []string{"", "scale"} {
			got := train(p, scale)
			for i, want := range exact {
				require.InEpsilon(t, want, got[i], 0.02, "%s, step %d", p, i)
			}
		}
	}
}
