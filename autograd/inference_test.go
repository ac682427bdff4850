package autograd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// evaluated is what PyTorch has for the network of testdata/evaluate, made by net.py there.
type evaluated struct {
	X, Scores     []float64
	Labels        []int64
	Loss          float64
	Before, After map[string][]float64 // running statistics
	Count         map[string]float64   // elements that a norm's statistics are of
}

func loadEvaluated(t *testing.T, opset int) (*graph.Model, *evaluated) {
	text, err := os.ReadFile("testdata/evaluate/want.json")
	require.NoError(t, err)
	var want evaluated
	require.NoError(t, json.Unmarshal(text, &want))
	return opened(t, fmt.Sprintf("testdata/evaluate/net_%d.onnx", opset)), &want
}

func opened(t *testing.T, path string) *graph.Model {
	m, file, err := onnx.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	inferred(t, m)
	return m
}

// inputs are those of the network with the initial statistics.
func (w *evaluated) inputs(m *graph.Model) map[string]*executor.Tensor {
	in := map[string]*executor.Tensor{
		"x":      executor.NewTensor(graph.Float32, []int{6, 1, 4, 4}, narrow(w.X)...),
		"labels": executor.NewTensor(graph.Int64, []int{6}, w.Labels...),
	}
	for name, v := range w.Before {
		in[name] = executor.NewTensor(graph.Float32, []int{len(v)}, narrow(v)...)
	}
	return withDefaults(m, in)
}

func narrow(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

// withDefaults adds the contents of initializers that are inputs.
func withDefaults(m *graph.Model, in map[string]*executor.Tensor) map[string]*executor.Tensor {
	for _, d := range m.Graph.Inputs {
		v := &m.Graph.Values[d.Value]
		if in[v.Name] == nil && v.Data != nil {
			x, err := dataset.FromData(v.Data)
			if err == nil {
				in[v.Name] = x
			}
		}
	}
	return in
}

func inputNames(m *graph.Model) (names []string) {
	for _, d := range m.Graph.Inputs {
		names = append(names, m.Graph.ValueName(d.Value))
	}
	return names
}

// TestInference: the loss and the scores of PyTorch's model.eval(), of a network with norms of batches
// and dropout, in both ways that operator sets say that a norm trains. All that training changes is an
// input, by its name.
func TestInference(t *testing.T) {
	for _, opset := range []int{13, 16} {
		m, want := loadEvaluated(t, opset)
		j, err := autograd.Differentiate(m, autograd.Options{Statistics: true})
		require.NoError(t, err)
		require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw"}))
		pairs, err := live.Pairs(j.Model)
		require.NoError(t, err)
		var states []string
		for _, p := range pairs {
			if _, ok := m.Graph.Lookup(p.Input); ok {
				states = append(states, p.Input)
			}
		}
		require.Len(t, states, 10+4)
		op.RecordWatch(m, []string{"loss", "a value of the update"})
		before := fmt.Sprint(m.Graph, m.Metadata)
		e, types, err := autograd.Inference(m, []string{"loss", "scores"}, states)
		require.NoError(t, err)
		names, err := op.RecordedWatched(e)
		require.NoError(t, err)
		require.Nil(t, names, "an evaluation writes no state that a value could keep from it")
		require.Equal(t, before, fmt.Sprint(m.Graph, m.Metadata), "the model is not changed")
		require.NotNil(t, types)
		require.ElementsMatch(t, append([]string{"x", "labels"}, states...), inputNames(e))
		out := stepOf(t, e, symbolic.Env{"batch": 6}, want.inputs(e))
		require.Len(t, out, 2)
		require.InDelta(t, want.Loss, executor.Of[float32](out["loss"])[0], 1e-5)
		require.InDeltaSlice(t, want.Scores, floatsOf(t, out["scores"]), 1e-5)

		e, _, err = autograd.Inference(m, []string{"scores"}, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"x"}, inputNames(e), "the labels are not read")
		for _, n := range e.Graph.Nodes {
			require.False(t, op.Of(n.Kind).Has(op.Loss))
		}
	}
}

// TestInferenceOfExamples: of a graph with a backward half the forward one remains. Where nothing is
// dropped and no norm is of a batch it is the same.
func TestInferenceOfExamples(t *testing.T) {
	for _, c := range gradientGraphs(t) {
		t.Run(c.name, func(t *testing.T) {
			j, err := autograd.FromGradients(c.m)
			require.NoError(t, err)
			inferred(t, c.m)
			e, _, err := autograd.Inference(c.m, []string{c.loss}, j.Wrt)
			require.NoError(t, err)
			require.Less(t, len(e.Graph.Nodes), len(c.m.Graph.Nodes)/2+3)
			in := withDefaults(e, c.inputs(t, j, j.Model))
			got := stepOf(t, e, c.dims, in)[c.loss]
			if c.name == "cnn" { // the statistics that a batch leaves when nothing of the old ones is kept
				in = c.settled(t, j, in)
				got = stepOf(t, e, c.dims, in)[c.loss]
			}
			want := stepOf(t, j.Model, c.dims, in)[c.loss]
			if c.name == "cnn" {
				require.InEpsilon(t, executor.Of[float32](want)[0], executor.Of[float32](got)[0], 1e-5)
			} else {
				require.Equal(t, want.Data, got.Data)
			}
		})
	}
}

// settled replaces the running statistics by those of the batch.
func (c *gradientGraph) settled(t *testing.T, j *autograd.Joint,
	in map[string]*executor.Tensor) map[string]*executor.Tensor {
	m := j.Model.Clone()
	for _, n := range m.Graph.Nodes {
		if n.Kind == op.BatchNormInternal {
			n.SetAttr("momentum", float32(0))
		}
	}
	out := stepOf(t, m, c.dims, in)
	pairs, err := live.Pairs(m)
	require.NoError(t, err)
	changed := 0
	for _, p := range pairs {
		in[p.Input] = out[p.Output]
		changed++
	}
	require.Positive(t, changed)
	return in
}

// TestInferenceOfSamples: networks of PyTorch without norms of batches, whose dropout has the ratio 0.
func TestInferenceOfSamples(t *testing.T) {
	same := 0
	for _, s := range graphtest.Tiny.Files(t) {
		m := opened(t, s.File)
		var outputs []string
		for _, d := range m.Graph.Outputs {
			outputs = append(outputs, m.Graph.ValueName(d.Value))
		}
		e, _, err := autograd.Inference(m, outputs, nil)
		require.NoError(t, err, s.Name)
		if slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return op.Of(n.Kind).Updates != nil }) {
			continue
		}
		same++
		set, err := dataset.LoadDir(filepath.Join(s.Folder, "test_data_set_0"), m.Graph, nil)
		require.NoError(t, err)
		env := boundDims(m.Graph, set.Inputs)
		want, got := stepOf(t, m, env, set.Inputs), stepOf(t, e, env, set.Inputs)
		for name, x := range want {
			require.Equal(t, x.Data, got[name].Data, "%s: %s", s.Name, name)
		}
	}
	require.Positive(t, same)
}

// boundDims reads the symbols of a graph's inputs off tensors.
func boundDims(g *graph.Graph, in map[string]*executor.Tensor) symbolic.Env {
	env := symbolic.Env{}
	for _, d := range g.Inputs {
		for i, dim := range d.Type.Shape.Dims {
			if _, known := dim.Const(); !known {
				env[dim.String()] = int64(in[g.ValueName(d.Value)].Shape[i])
			}
		}
	}
	return env
}

// TestInferenceOfDropouts: every operator that drops, with and without the forms of its versions.
func TestInferenceOfDropouts(t *testing.T) {
	for _, node := range []string{
		`<opset_import: ["" : 10]> y = Dropout<ratio = 0.9>(x)`,
		`<opset_import: ["" : 17]> y, mask = Dropout<seed = 1>(x, ratio, yes)`,
		`<opset_import: ["" : 17, "com.microsoft" : 1]> y = com.microsoft.BiasDropout(x, zero, , ratio, yes)`,
		`<opset_import: ["" : 17, "com.microsoft" : 1]> y, mask = com.microsoft.BitmaskDropout(x, ratio, yes)`,
		`<opset_import: ["" : 17, "com.microsoft" : 1]> y, mask = com.microsoft.BitmaskBiasDropout(x, zero, , ratio, yes)`,
	} {
		head, body, _ := cut(node)
		m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, %s g (float[64] x) => (float[64] y)
			<float ratio = {0.9}, bool yes = {1}, float[64] zero = {%s}> { %s }`, head[1:], zeros(64), body), "g")
		require.NoError(t, err)
		inferred(t, m)
		e, _, err := autograd.Inference(m, []string{"y"}, nil)
		require.NoError(t, err, node)
		x := executor.NewTensor(graph.Float32, []int{64}, slices.Repeat([]float32{1.5}, 64)...)
		out := stepOf(t, e, nil, map[string]*executor.Tensor{"x": x})
		require.Equal(t, x.Data, out["y"].Data, node)
	}
}

// TestInferenceBeforeSeven: there an attribute says it.
func TestInferenceBeforeSeven(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 3, opset_import: ["" : 6]> g (float[4, 2] x, float[2] s) => (float[4, 2] y) {
		n, a, b, c, d = BatchNormalization(x, s, s, s, s)  y = Dropout(n) }`, "g")
	require.NoError(t, err)
	inferred(t, m)
	e, _, err := autograd.Inference(m, []string{"y"}, nil)
	require.NoError(t, err)
	for _, n := range e.Graph.Nodes {
		require.Equal(t, int64(1), n.Int("is_test", 0))
		require.Len(t, n.Outputs, 1)
	}
}

func cut(node string) (head, body string, ok bool) {
	for i := range node {
		if node[i] == '>' {
			return node[:i+1], node[i+1:], true
		}
	}
	return "", node, false
}

func zeros(n int) string {
	text := "0"
	for range n - 1 {
		text += ", 0"
	}
	return text
}

// TestInferenceInSubgraphs: a branch drops nothing, either.
func TestInferenceInSubgraphs(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (bool c, float[64] x, float[3] unread) => (float[64] y)
		<float ratio = {0.9}, bool yes = {1}> {
		y = If(c)<then_branch = a () => (float[64] p) { p = Dropout(x, ratio, yes) },
			else_branch = b () => (float[64] q) { q = Identity(x) }> }`, "g")
	require.NoError(t, err)
	inferred(t, m)
	e, _, err := autograd.Inference(m, []string{"y"}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"c", "x"}, inputNames(e))
	x := executor.NewTensor(graph.Float32, []int{64}, slices.Repeat([]float32{1.5}, 64)...)
	yes := &executor.Tensor{DType: graph.Bool, Shape: []int{}, Data: []byte{1}}
	out := stepOf(t, e, nil, map[string]*executor.Tensor{"x": x, "c": yes})
	require.Equal(t, x.Data, out["y"].Data)
}

func TestInferenceErrors(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
		g (float[2, 3] x, float[3] s) => (float[2, 3] y, float[3] m1, float[2, 3] d) <float[3] w = {1, 2, 3}> {
		n, m1, v = BatchNormalization<training_mode = 1>(x, s, w, s, s)  y = Add(n, m1)
		d, mask = com.microsoft.BiasSoftmaxDropout<axis = 1, is_inner_broadcast = 1>(x, s) }`, "g")
	require.NoError(t, err)
	inferred(t, m)
	_, _, err = autograd.Inference(m, []string{"y"}, nil)
	require.ErrorContains(t, err, "(BiasSoftmaxDropout): cannot be evaluated: only training has it")
	m.Graph.SetNodes(m.Graph.Nodes[:2])
	m.Graph.Outputs = m.Graph.Outputs[:2]
	for _, c := range []struct {
		outputs, inputs []string
		want            string
	}{
		{[]string{"y"}, nil, `(Add): reads "m1", which is there only in training`},
		{[]string{"m1"}, nil, `output "m1": is there only in training`},
		{[]string{"z"}, nil, `output "z": the graph has no such value`},
		{[]string{"n"}, []string{"z"}, `input "z": the graph has no such value`},
		{[]string{"n"}, []string{"n"}, `input "n": is made by node`},
	} {
		_, _, err := autograd.Inference(m, c.outputs, c.inputs)
		require.ErrorContains(t, err, c.want)
	}
	e, _, err := autograd.Inference(m, []string{"n", "n"}, []string{"w"})
	require.NoError(t, err)
	require.Equal(t, []string{"x", "s", "w"}, inputNames(e))
}
