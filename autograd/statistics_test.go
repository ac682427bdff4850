package autograd_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/symbolic"
)

// statisticsOf runs one training step with the running statistics as states and returns their new
// values by the names of the old ones.
func statisticsOf(t *testing.T, m *graph.Model, env symbolic.Env,
	in map[string]*executor.Tensor) (old, updated map[string]*executor.Tensor) {
	j, err := autograd.Differentiate(m, autograd.Options{Statistics: true, LossOutput: true})
	require.NoError(t, err)
	pairs, err := live.Pairs(j.Model)
	require.NoError(t, err)
	in = withDefaults(j.Model, in)
	out := stepOf(t, j.Model, env, in)
	old, updated = map[string]*executor.Tensor{}, map[string]*executor.Tensor{}
	for _, p := range pairs {
		old[p.Input], updated[p.Input] = in[p.Input], out[p.Output]
	}
	return old, updated
}

// TestStatistics: the running statistics after a step are PyTorch's buffers, with the population's
// variance in place of the unbiased one.
func TestStatistics(t *testing.T) {
	compared := 0
	for _, s := range graphtest.Tiny.Files(t) {
		after := filepath.Join(s.Folder, "buffers_after")
		if _, err := os.Stat(after); err != nil {
			continue
		}
		m := opened(t, s.File)
		dropNoise(m)
		set, err := dataset.LoadDir(filepath.Join(s.Folder, "test_data_set_0"), m.Graph, nil)
		require.NoError(t, err)
		env := boundDims(m.Graph, set.Inputs)
		count := map[string]float64{}
		for _, n := range m.Graph.Nodes {
			if op.Of(n.Kind).Updates != nil {
				x := m.Graph.Values[n.Input(0)].Type.Shape
				elements, err := x.Elements().Eval(env)
				require.NoError(t, err)
				channels, _ := x.Dims[1].Const()
				count[m.Graph.ValueName(n.Input(4))] = float64(elements) / float64(channels)
			}
		}
		old, got := statisticsOf(t, m, env, set.Inputs)
		files, err := filepath.Glob(filepath.Join(after, "*.pb"))
		require.NoError(t, err)
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".pb")
			want, err := dataset.ReadTensor(file)
			require.NoError(t, err)
			require.Contains(t, got, name, s.Name)
			x := floatsOf(t, want.Tensor)
			comparePyTorch(t, name, x, floatsOf(t, old[name]), floatsOf(t, got[name]), 0.9, count[name])
			compared++
		}
		require.Len(t, got, len(files), s.Name)
	}
	require.Greater(t, compared, 20)
}

// comparePyTorch compares running statistics; count is how many elements a variance is of, 0 for
// means.
func comparePyTorch(t *testing.T, name string, want, old, got []float64, momentum, count float64) {
	t.Helper()
	for i := range want {
		batch := (got[i] - momentum*old[i]) / (1 - momentum)
		if count != 0 {
			batch *= count / (count - 1)
		}
		require.InDelta(t, want[i], momentum*old[i]+(1-momentum)*batch, 2e-5, "%s[%d]", name, i)
	}
}

// TestStatisticsOfOperatorSets: in both ways that operator sets have, with momentum 0.8.
func TestStatisticsOfOperatorSets(t *testing.T) {
	for _, opset := range []int{13, 16} {
		m, want := loadEvaluated(t, opset)
		in := want.inputs(m)
		for name := range want.Before {
			require.Contains(t, in, name)
		}
		old, got := statisticsOf(t, m, symbolic.Env{"batch": 6}, in)
		require.Len(t, got, 4)
		for name, count := range map[string]float64{"norm.running_mean": 0, "norm.running_var": want.Count["norm"]} {
			comparePyTorch(t, name, want.After[name], floatsOf(t, old[name]), floatsOf(t, got[name]), 0.8, count)
		}
	}
}

// TestSharedStatistics: a norm that is applied twice updates its statistics twice, as PyTorch's module
// does, whether the file has the outputs or not; norms that do not train keep nothing.
func TestSharedStatistics(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[4, 2] x, float[2] w, float[2] b) => (float loss)
		<float[2] mean = {1, 2}, float[2] vari = {3, 4}, float[2] fixed = {1, 1}> {
		same = Identity(mean)
		a = BatchNormalization<training_mode = 1, momentum = 0.5>(x, w, b, mean, vari)
		c = Add(x, x)
		d, m2, v2 = BatchNormalization<training_mode = 1, momentum = 0.5>(c, w, b, same, vari)
		e = Add(a, d)  f = BatchNormalization(e, w, b, fixed, fixed)  q = Mul(f, f)  loss = ReduceMean<keepdims = 0>(q) }`, "g")
	require.NoError(t, err)
	inferred(t, m)
	x := executor.NewTensor[float32](graph.Float32, []int{4, 2}, 1, 10, 3, 10, 5, 30, 7, 30)
	one := executor.NewTensor[float32](graph.Float32, []int{2}, 1, 1)
	_, got := statisticsOf(t, m, nil, map[string]*executor.Tensor{"x": x, "w": one, "b": one})
	require.Len(t, got, 2)
	// The batch's means are 4 and 20, then 8 and 40; its variances 5 and 100, then 20 and 400.
	require.Equal(t, []float32{(1+4)/4. + 4, (2+20)/4. + 20}, executor.Of[float32](got["mean"]))
	require.Equal(t, []float32{(3+5)/4. + 10, (4+100)/4. + 200}, executor.Of[float32](got["vari"]))
	plain, err := autograd.Differentiate(m, autograd.Options{})
	require.NoError(t, err)
	pairs, err := live.Pairs(plain.Model)
	require.NoError(t, err)
	require.Empty(t, pairs)
}

// TestStatisticsAreStates: the statistics are states beside those of an update, and of a micro-step.
// Only they, a few numbers for each channel, are copied when a step is done.
func TestStatisticsAreStates(t *testing.T) {
	m, _ := loadEvaluated(t, 16)
	for _, accumulate := range []bool{false, true} {
		j, err := autograd.Differentiate(m, autograd.Options{Statistics: true, Accumulate: accumulate})
		require.NoError(t, err)
		if !accumulate {
			o := autograd.Optimizer{Kind: "adamw", MaxNorm: 1}
			require.NoError(t, autograd.AppendOptimizer(j, o))
		}
		pairs, err := live.Pairs(j.Model)
		require.NoError(t, err)
		known := map[string]bool{}
		for _, p := range pairs {
			known[p.Input] = true
		}
		for _, name := range []string{"norm.running_mean", "norm.running_var", "norm2.running_mean",
			"norm2.running_var"} {
			require.True(t, known[name], name)
		}
		for _, s := range simulated(t, j.Model, symbolic.Env{"batch": 6}).Copied {
			require.Contains(t, j.Model.Graph.ValueName(s.In), ".running_")
		}
	}
}

// TestGuardedStatistics: where the loss is not finite the running statistics stay, too.
func TestGuardedStatistics(t *testing.T) {
	m, want := loadEvaluated(t, 16)
	j, err := autograd.Differentiate(m, autograd.Options{Statistics: true})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw", LR: 0.1, Guard: true}))
	pairs, err := live.Pairs(j.Model)
	require.NoError(t, err)
	for _, n := range j.Model.Graph.Nodes { // ONNX Runtime's kernels write over what they read
		for _, u := range op.Of(n.Kind).Updates {
			require.NotEqual(t, graph.NoNode, j.Model.Graph.Values[n.Input(u.In)].Def, "it reads the state itself")
		}
	}
	for _, finite := range []bool{true, false} {
		in := want.inputs(j.Model)
		for _, d := range j.Model.Graph.Inputs {
			if name := j.Model.Graph.ValueName(d.Value); in[name] == nil {
				shape := executor.EvalShape(d.Type, nil)
				n, _ := executor.Bytes(d.Type.DType, shape)
				in[name] = &executor.Tensor{DType: d.Type.DType, Shape: shape, Data: make([]byte, n)}
			}
		}
		if !finite {
			executor.Of[float32](in["x"])[3] = float32(math.NaN())
		}
		out := stepOf(t, j.Model, symbolic.Env{"batch": 6}, in)
		require.Equal(t, finite, out[autograd.FiniteOutput].Data[0] == 1)
		for _, p := range pairs {
			require.NotNil(t, out[p.Output], p.Output)
			if finite == bytes.Equal(in[p.Input].Data, out[p.Output].Data) {
				t.Errorf("finite %v: %s", finite, p)
			}
		}
	}
}
