package verify_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
)

// meta is what the tests read of a sample's meta.json.
type meta struct {
	Deterministic *bool `json:"deterministic"`
	Tolerance     struct {
		Abs float64 `json:"atol"`
		Rel float64 `json:"rtol"`
	} `json:"tolerance"`
}

// TestSamples runs the sample models on their data sets: outputs agree with PyTorch's, relative to
// the largest element of each tensor, as the samples' README wants it.
func TestSamples(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		var info meta
		data, err := os.ReadFile(filepath.Join(s.Folder, "meta.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &info))
		if info.Deterministic != nil && !*info.Deterministic {
			continue // its reference takes dropout as the identity, which the graph does not
		}
		sets, err := filepath.Glob(s.Folder + "/test_data_set_*")
		require.NoError(t, err)
		require.NotEmpty(t, sets)
		for _, dir := range sets {
			t.Run(s.Name+"/"+filepath.Base(dir), func(t *testing.T) { runSample(t, s.File, dir, info) })
		}
	}
}

func runSample(t *testing.T, file, dir string, info meta) {
	m, closer, err := onnx.Open(file)
	require.NoError(t, err)
	defer closer.Close()
	require.NoError(t, graph.RunPasses(m, graph.Pass{Name: "inline", Run: op.InlineFunctions}))
	types := infer(t, m)
	set, err := dataset.LoadDir(dir, m.Graph, nil)
	require.NoError(t, err)
	values := make([]*executor.Tensor, len(m.Graph.Values))
	for name, x := range set.Inputs {
		id, _ := m.Graph.Lookup(name)
		values[id] = x
	}
	env, err := executor.BindDims(m.Graph, values, nil)
	require.NoError(t, err)
	for _, s := range []executor.Options{{Threads: 1}, {Threads: 2, Guard: true}} {
		run, err := verify.Execute(context.Background(), verify.Side{Model: m, Types: types, Dims: env}, set.Inputs,
			verify.Options{Engine: verify.On(cpu.Device{}), Session: s})
		require.NoError(t, err)
		require.Equal(t, run.Predicted.Arena, run.Measured.Arena)
		for i, got := range run.Outputs {
			want := set.Outputs[i].Tensor
			var largest float64
			for _, v := range executor.Of[float32](want) {
				largest = max(largest, math.Abs(float64(v)))
			}
			_, abs := verify.Compare(got.Name, got.Tensor, want, verify.Tolerance{Abs: math.Inf(1)})
			require.LessOrEqual(t, abs, info.Tolerance.Abs+info.Tolerance.Rel*largest, "output %q", got.Name)
		}
	}
}
