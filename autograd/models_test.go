package autograd_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// sampleMeta is what a sample model's meta.json says.
type sampleMeta struct {
	Loss          string `json:"loss_output"`
	Deterministic *bool
	Trainable     []struct{ Name string }
	Tolerance     struct{ Atol, Rtol float64 }
	Inputs        []struct {
		Name  string
		Shape []any
	}
}

// TestModels differentiates exported networks and compares outputs and gradients with PyTorch's.
func TestModels(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		t.Run(s.Name, func(t *testing.T) { compareModel(t, s.Folder, false) })
		if s.Name == "gpt2_tiny" { // its scores are shifted by one: less of them is computed then
			t.Run(s.Name+", the loss alone", func(t *testing.T) { compareModel(t, s.Folder, true) })
		}
	}
}

// compareModel differentiates a model; lossOnly leaves the other outputs out.
func compareModel(t *testing.T, dir string, lossOnly bool) {
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
	opts := autograd.Options{Losses: []autograd.Loss{{Name: meta.Loss}}}
	if meta.Loss == "" { // the reference is the mean cross-entropy over the logits, outside the graph
		opts.Losses[0] = autograd.Loss{Name: "logits", Seed: true}
	}
	if lossOnly {
		opts.Outputs = []string{meta.Loss}
	}
	for _, p := range meta.Trainable {
		opts.Wrt = append(opts.Wrt, p.Name)
	}
	j, err := autograd.Differentiate(m, opts)
	require.NoError(t, err)
	require.False(t, j.Raised && j.To > 16, "operator set %d", j.To)
	for _, set := range []struct{ data, grads string }{{"test_data_set_0", "grads64"}, {"test_data_set_1", "grads_1"}} {
		if _, err := os.Stat(filepath.Join(dir, set.data)); err == nil {
			compareSet(t, &meta, m, j, filepath.Join(dir, set.data), filepath.Join(dir, set.grads), lossOnly)
		}
	}
}

// dropNoise takes dropout out of training mode, as the reference gradients do.
func dropNoise(m *graph.Model) {
	for _, n := range m.Graph.Nodes {
		if n.Kind == op.Dropout {
			n.Inputs = n.Inputs[:1]
		}
	}
}

func compareSet(
	t *testing.T, meta *sampleMeta, m *graph.Model, j *autograd.Joint, data, grads string, lossOnly bool,
) {
	if _, err := os.Stat(grads); err != nil {
		return
	}
	set, err := dataset.LoadDir(data, m.Graph, nil)
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
			filepath.Join(filepath.Dir(data), labelFolder(grads), "_labels.pb"))
	}
	results := newRunner(t, j.Model, env)(set.Inputs)
	byName := map[string]*executor.Tensor{}
	for i, d := range j.Model.Graph.Outputs {
		byName[j.Model.Graph.ValueName(d.Value)] = results[i]
	}
	for _, want := range set.Outputs {
		if got := byName[want.Name]; got != nil || !lossOnly {
			compareTensor(t, meta, data+": "+want.Name, got, want.Tensor)
		}
	}
	for _, name := range j.Wrt {
		want, err := dataset.ReadTensor(filepath.Join(grads, name+".pb"))
		require.NoError(t, err)
		compareTensor(t, meta, grads+": "+name, byName[name+autograd.GradSuffix], want.Tensor)
	}
}

// labelFolder is where the labels of a data set are: float64 gradients are of the first one.
func labelFolder(grads string) string {
	if filepath.Base(grads) == "grads64" {
		return "grads"
	}
	return filepath.Base(grads)
}

// crossEntropyGradient is the gradient of the mean cross-entropy over the last axis: (softmax -
// onehot)/count.
func crossEntropyGradient(t *testing.T, logits *executor.Tensor, file string) *executor.Tensor {
	t.Helper()
	labels, err := dataset.ReadTensor(file)
	require.NoError(t, err)
	classes := logits.Shape[len(logits.Shape)-1]
	of, x := executor.Of[int64](labels.Tensor), executor.Of[float32](logits)
	require.Equal(t, len(x), classes*len(of))
	g := make([]float32, len(x))
	for row, label := range of {
		var sum float64
		for _, v := range x[row*classes : (row+1)*classes] {
			sum += math.Exp(float64(v))
		}
		for c := range classes {
			p := math.Exp(float64(x[row*classes+c])) / sum
			if int64(c) == label {
				p--
			}
			g[row*classes+c] = float32(p / float64(len(of)))
		}
	}
	return executor.NewTensor(graph.Float32, logits.Shape, g...)
}

// compareTensor holds |got - want| to atol + rtol·max|want|.
func compareTensor(t *testing.T, meta *sampleMeta, name string, got, want *executor.Tensor) {
	t.Helper()
	require.True(t, slices.Equal(want.Shape, got.Shape), "%s: shape %v, wanted %v", name, got.Shape, want.Shape)
	var worst, most float64
	have := floatsOf(t, got)
	for i, w := range floatsOf(t, want) {
		if d := math.Abs(have[i] - w); !(d <= worst) {
			worst = d
		}
		most = max(most, math.Abs(w))
	}
	if bound := meta.Tolerance.Atol + meta.Tolerance.Rtol*most; !(worst <= bound) {
		t.Errorf("%s: off by %g, the largest is %g, allowed %g", name, worst, most, bound)
	}
}

// floatsOf returns the elements as float64.
func floatsOf(t *testing.T, x *executor.Tensor) []float64 {
	t.Helper()
	switch x.DType {
	case graph.Float64:
		return executor.Of[float64](x)
	case graph.Float32:
		out := make([]float64, len(executor.Of[float32](x)))
		for i, v := range executor.Of[float32](x) {
			out[i] = float64(v)
		}
		return out
	}
	t.Fatalf("no floats: %v", x.DType)
	return nil
}
