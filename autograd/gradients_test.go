package autograd_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/symbolic"
)

// gradientGraph is a training graph that FromGradients is to read.
type gradientGraph struct {
	name           string
	m              *graph.Model
	dims           symbolic.Env
	loss, lossGrad string
	params         int
}

func gradientGraphs(t *testing.T) []gradientGraph {
	made := func(m *graph.Model, err error) *graph.Model {
		require.NoError(t, err)
		return m
	}
	small := examples.TransformerOptions{Layers: 2, Hidden: 16, Heads: 2, Vocab: 48, Positions: 12, Dropout: 1e-12}
	cases := []gradientGraph{
		{"transformer", made(examples.Transformer(small)), symbolic.Env{"batch": 2, "seq": 8}, "loss", "loss_grad", 28},
		{"mlp", made(examples.MLP(examples.MLPOptions{Layers: 2, Inputs: 8, Hidden: 6, Classes: 5})),
			symbolic.Env{"batch": 4}, "loss", "", 6},
		{"cnn", made(examples.CNN(examples.CNNOptions{Stages: 2, Blocks: 1, Channels: 4, Side: 8})),
			symbolic.Env{"batch": 3}, "loss", "loss_grad", 20},
	}
	forward, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[b, 3] x, float[3] w) => (float[b] y)
		<float[3] bias = {1, -2, 3}, int64[1] axis = {1}> {
		xw = Mul(x, w)  a = Add(xw, bias)  q = Mul(a, a)  y = ReduceSum<keepdims = 0>(q, axis)  loss = ReduceMean<keepdims = 0>(y)
	}`, "g")
	require.NoError(t, err)
	j, err := autograd.Differentiate(forward, autograd.Options{Losses: []autograd.Loss{{Name: "loss", Seed: true}}})
	require.NoError(t, err)
	cases = append(cases, gradientGraph{"differentiated", j.Model, symbolic.Env{"b": 5}, "loss", "loss_grad_seed", 2})
	for _, s := range graphtest.ORTGraphs.Files(t) {
		if s.Name == "training_model" {
			m, file, err := onnx.Open(s.File)
			require.NoError(t, err)
			t.Cleanup(func() { file.Close() })
			cases = append(cases, gradientGraph{"training_model", m, symbolic.Env{"input-0_dim0": 3,
				"input-0_dim1": 784, "output-0_dim0": 3}, "onnx::loss::21273", "", 4})
		}
	}
	return cases
}

// stepOf runs one step of a training graph.
func stepOf(t *testing.T, m *graph.Model, dims symbolic.Env,
	in map[string]*executor.Tensor) map[string]*executor.Tensor {
	t.Helper()
	s, err := executor.Open(context.Background(), m, inferred(t, m), cpu.Device{},
		executor.Options{Threads: 1, Dims: dims})
	require.NoError(t, err)
	defer s.Close()
	for _, d := range m.Graph.Inputs {
		require.NoError(t, s.SetInput(m.Graph.ValueName(d.Value), in[m.Graph.ValueName(d.Value)]))
	}
	for _, f := range s.Feeds() {
		require.NoError(t, s.SetInput(m.Graph.ValueName(f.Value), in[m.Graph.ValueName(f.Value)]))
	}
	require.NoError(t, s.Run(context.Background()))
	out := map[string]*executor.Tensor{}
	for i, d := range m.Graph.Outputs {
		x := s.Output(i)
		out[m.Graph.ValueName(d.Value)] = &executor.Tensor{DType: x.DType, Shape: slices.Clone(x.Shape),
			Data: bytes.Clone(x.Data)}
	}
	return out
}

// withGradients returns the graph as it is with each NAME_grad as an output: what an update is made of.
func withGradients(t *testing.T, m *graph.Model, wrt []string) *graph.Model {
	m = m.Clone()
	for _, name := range wrt {
		v, ok := m.Graph.Lookup(name + autograd.GradSuffix)
		require.True(t, ok, name)
		if !m.Graph.Values[v].Output {
			require.NoError(t, m.Graph.AddOutput(graph.Decl{Value: v, Type: m.Graph.Values[v].Type}))
		}
	}
	return m
}

// TestFromGradients: the appended update is AdamW's, computed here in double from the gradients that
// the graph gives as it is; the loss can be read, and the updates are backward nodes behind all others.
func TestFromGradients(t *testing.T) {
	for _, c := range gradientGraphs(t) {
		t.Run(c.name, func(t *testing.T) {
			before := fmt.Sprint(c.m.Graph)
			j, err := autograd.FromGradients(c.m)
			require.NoError(t, err)
			require.Equal(t, before, fmt.Sprint(c.m.Graph), "the model is not changed")
			require.Equal(t, c.loss, j.Loss)
			require.Equal(t, c.lossGrad, j.LossGrad)
			require.Empty(t, j.OtherGrads)
			require.Len(t, j.Wrt, c.params)
			plain := withGradients(t, c.m, j.Wrt)
			nodes := len(j.Model.Graph.Nodes)
			o := autograd.Optimizer{Kind: "adamw", WeightDecay: 0.1, MaxNorm: 0.5, Guard: true,
				NoDecay: autograd.NoDecayOfVectors(j.Model)}
			require.NoError(t, autograd.AppendOptimizer(j, o))
			checkArranged(t, j, nodes)

			in := c.inputs(t, j, plain)
			out := stepOf(t, j.Model, c.dims, in)
			grads := stepOf(t, plain, c.dims, in)
			require.Contains(t, out, c.loss)
			require.Equal(t, byte(1), out[autograd.FiniteOutput].Data[0])
			c.checkUpdate(t, j, in, out, grads)
		})
	}
}

// checkArranged: the nodes of the update stand behind the others and count as backward, and all
// parameters and moments are states.
func checkArranged(t *testing.T, j *autograd.Joint, nodes int) {
	b, err := live.FindBoundary(j.Model)
	require.NoError(t, err)
	order, err := graph.Topological(j.Model.Graph)
	require.NoError(t, err)
	backward := live.Split(j.Model.Graph, b, order)
	updates := 0
	for i, n := range j.Model.Graph.Nodes {
		if strings.HasPrefix(n.Name, "/statistics/") {
			nodes++
			require.False(t, backward[i], "node %q", n.Name)
		}
		if strings.HasPrefix(n.Name, "/optimizer/") {
			updates++
			require.True(t, backward[i], "node %q", n.Name)
		}
	}
	require.Equal(t, len(j.Model.Graph.Nodes)-nodes, updates)
	states, err := live.Pairs(j.Model)
	require.NoError(t, err)
	known := map[string]bool{}
	for _, s := range states {
		known[s.Input] = true
	}
	for _, name := range j.Wrt {
		require.True(t, known[name] && known[name+autograd.AvgSuffix] && known[name+autograd.SqAvgSuffix], name)
	}
}

// inputs makes up the inputs of both graphs.
func (c *gradientGraph) inputs(t *testing.T, j *autograd.Joint, plain *graph.Model) map[string]*executor.Tensor {
	in := map[string]*executor.Tensor{}
	for _, m := range []*graph.Model{plain, j.Model} {
		inferred(t, m)
		f := dataset.NewFiller(m.Graph, c.dims, 7)
		f.BeginAtZero(live.OptimizerStates(m))
		for _, d := range m.Graph.Inputs {
			x, err := f.Fill(d.Value)
			require.NoError(t, err)
			if data := m.Graph.Values[d.Value].Data; data != nil {
				raw, err := data.Source.Bytes()
				require.NoError(t, err)
				copy(x.Data, raw)
			}
			in[m.Graph.ValueName(d.Value)] = x
		}
	}
	one := &executor.Tensor{DType: graph.Float32, Shape: []int{}, Data: executor.Memory([]float32{1})}
	if c.lossGrad != "" {
		in[c.lossGrad] = one
	}
	in[autograd.LRInput] = &executor.Tensor{DType: graph.Float32, Shape: []int{},
		Data: executor.Memory([]float32{0.01})}
	return in
}

// checkUpdate computes the first step of AdamW with clipping in double.
func (c *gradientGraph) checkUpdate(t *testing.T, j *autograd.Joint, in, out, grads map[string]*executor.Tensor) {
	square := 0.0
	for _, name := range j.Wrt {
		for _, g := range executor.Of[float32](grads[name+autograd.GradSuffix]) {
			square += float64(g) * float64(g)
		}
	}
	norm := math.Sqrt(square)
	require.Positive(t, norm)
	require.InEpsilon(t, norm, executor.Of[float32](out[autograd.NormOutput])[0], 1e-4)
	bound, lr := min(1, 0.5/(norm+1e-6)), float64(float32(0.01))
	for _, name := range j.Wrt {
		decay := 0.0
		if len(in[name].Shape) >= 2 {
			decay = 0.1
		}
		w, got := executor.Of[float32](in[name]), executor.Of[float32](out[name+autograd.NewSuffix])
		for i, g := range executor.Of[float32](grads[name+autograd.GradSuffix]) {
			x := float64(g) * bound
			want := float64(w[i])*(1-lr*decay) - lr*x/(math.Abs(x)+1e-8)
			require.InDelta(t, want, got[i], 2e-6+1e-4*lr*math.Min(1, 1e-8/(math.Abs(x)+1e-12)), "%s[%d]", name, i)
		}
	}
}

// TestFromGradientsPlans: with an update, the peaks of plans for the YieldOp graph are those that a
// runner measures, and states are written in place.
func TestFromGradientsPlans(t *testing.T) {
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 2, Hidden: 32, Heads: 2, Vocab: 64,
		Positions: 64})
	require.NoError(t, err)
	dims := symbolic.Env{"batch": 4, "seq": 32}
	j, err := autograd.FromGradients(m)
	require.NoError(t, err)
	without, err := planner.Make(m, inferred(t, m), planner.Options{Dims: dims})
	require.NoError(t, err)
	for i, id := range without.Analysis.Order {
		require.Equal(t, m.Graph.NodeLabel(id), j.Model.Graph.NodeLabel(graph.NodeID(i)), "ONNX Runtime's order")
	}
	require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw", MaxNorm: 1, Guard: true}))
	plain, err := planner.Make(j.Model, j.Types, planner.Options{Dims: dims})
	require.NoError(t, err)
	require.Empty(t, plain.Planned.Copied)
	level, err := planner.Make(j.Model, j.Types, planner.Options{Dims: dims, Strategy: planner.Level(1)})
	require.NoError(t, err)
	require.Empty(t, level.Planned.Copied)
	require.Less(t, level.Planned.Peak.Bytes, plain.Planned.Peak.Bytes)
}

// TestFromGradientsRefuses: graphs without gradients of parameters.
func TestFromGradientsRefuses(t *testing.T) {
	parse := func(text string) *graph.Model {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> `+text, "g")
		require.NoError(t, err)
		op.Bind(m)
		return m
	}
	_, err := autograd.FromGradients(parse(`g (float[3] x) => (float[3] y) { y = Relu(x) }`))
	require.ErrorIs(t, err, live.ErrNoBoundary)
	const body = `{ a = Mul(x, w)  l = ReduceSum<keepdims = 0>(a)  d = com.microsoft.YieldOp<full_shape_outputs = [0]>(l)
		%s = Mul(x, d) }`
	for _, c := range []struct{ name, wrong string }{
		{"another name", "g (float[3] x, float[3] w) => (float[3] v_grad) " + fmt.Sprintf(body, "v_grad")},
		{"a parameter without static shape", "g (float[n] x, float[n] w) => (float[n] w_grad) " +
			fmt.Sprintf(body, "w_grad")},
		{"another shape", "g (float[2, 3] x, float[3] w) => (float[2, 3] w_grad) " + fmt.Sprintf(body, "w_grad")},
		{"an integer", `g (float[3] x, float[3] w, int64[3] v) => (float[3] v_grad) ` + fmt.Sprintf(body, "v_grad")},
	} {
		_, err := autograd.FromGradients(parse(c.wrong))
		require.ErrorIs(t, err, autograd.ErrNoGradients, c.name)
	}
	right := "g (float[3] x, float[3] w) => (float[3] w_grad) " + fmt.Sprintf(body, "w_grad")
	j, err := autograd.FromGradients(parse(right))
	require.NoError(t, err)
	require.Equal(t, []string{"w"}, j.Wrt)
}

// TestFromGradientsStatistics: running statistics that a step graph updates and drops are states.
func TestFromGradientsStatistics(t *testing.T) {
	c := gradientGraphs(t)[2]
	inferred(t, c.m)
	all, err := live.Pairs(c.m)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, p := range all {
		v, _ := c.m.Graph.Lookup(p.Output)
		c.m.Graph.Values[v].Output = false
		c.m.Graph.Outputs = slices.DeleteFunc(c.m.Graph.Outputs, func(d graph.Decl) bool { return d.Value == v })
	}
	j, err := autograd.FromGradients(c.m)
	require.NoError(t, err)
	kept, err := live.Pairs(j.Model)
	require.NoError(t, err)
	require.ElementsMatch(t, all, kept)
}

// TestFromGradientsYields: what a YieldOp hands out besides a loss.
func TestFromGradientsYields(t *testing.T) {
	for _, c := range []struct {
		yield, loss, lossGrad string
		others                []string
	}{
		{`d, e = com.microsoft.YieldOp<full_shape_outputs = [0, 1]>(l, a)  f = Mul(x, d)  w_grad = Add(f, e)`,
			"l", "d", []string{"e"}},
		{`e, d = com.microsoft.YieldOp<full_shape_outputs = [0, 1]>(a, l)  f = Mul(x, d)  w_grad = Add(f, e)`,
			"l", "d", []string{"e"}},
		{`d = com.microsoft.YieldOp<non_differentiable_outputs = [0], full_shape_outputs = [1]>(a, l)  w_grad = Mul(x, d)`,
			"l", "d", nil},
		{`z = Add(l, l)  d, e = com.microsoft.YieldOp<full_shape_outputs = [0, 1]>(l, z)  f = Add(e, d)  w_grad = Mul(x, f)`,
			"l", "d", []string{"e"}},
		{`e = com.microsoft.YieldOp<full_shape_outputs = [0]>(a)  w_grad = Mul(x, e)`, "", "", []string{"e"}},
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
			g (float[3] x, float[3] w) => (float[3] w_grad) { a = Mul(x, w)  l = ReduceSum<keepdims = 0>(a) `+c.yield+` }`, "g")
		require.NoError(t, err)
		j, err := autograd.FromGradients(m)
		require.NoError(t, err)
		require.Equal(t, c.loss, j.Loss, c.yield)
		require.Equal(t, c.lossGrad, j.LossGrad, c.yield)
		require.Equal(t, c.others, j.OtherGrads, c.yield)
		if c.loss != "" {
			v, _ := j.Model.Graph.Lookup(c.loss)
			require.True(t, j.Model.Graph.Values[v].Output)
		}
	}
}

// TestFromGradientsScaled: the scale of the loss comes in through the YieldOp, and out again in the
// update: in mixed precision it changes nothing but roundings, and an overflow leaves all as it was.
func TestFromGradientsScaled(t *testing.T) {
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 1, Hidden: 16, Heads: 2, Vocab: 48,
		Positions: 12, Dropout: 1e-12, Half: true})
	require.NoError(t, err)
	c := gradientGraph{m: m, dims: symbolic.Env{"batch": 2, "seq": 8}, lossGrad: "loss_grad"}
	var norms []float32
	for _, scale := range []float32{1, 256, 3e8} {
		j, err := autograd.FromGradients(m)
		require.NoError(t, err)
		j.LossScale = "loss_scale"
		require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw", MaxNorm: 1, Guard: true}))
		in := c.inputs(t, j, m)
		by := executor.NewTensor(graph.Float32, []int{}, scale)
		in["loss_scale"], in["loss_grad"] = by, by
		out := stepOf(t, j.Model, c.dims, in)
		finite := scale < 1e6
		require.Equal(t, finite, out[autograd.FiniteOutput].Data[0] == 1, "scale %v", scale)
		for _, name := range j.Wrt {
			require.Equal(t, finite, !bytes.Equal(in[name].Data, out[name+autograd.NewSuffix].Data), name)
		}
		norms = append(norms, executor.Of[float32](out[autograd.NormOutput])[0])
	}
	require.InEpsilon(t, norms[0], norms[1], 1e-2)
}
