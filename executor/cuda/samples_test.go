package cuda_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/graphtest"
)

// TestSamples runs the small sample models on the device as on the CPU.
func TestSamples(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		if !strings.HasSuffix(s.Name, "_tiny") {
			continue // a variant of one of the others
		}
		t.Run(s.Name, func(t *testing.T) {
			m, closer, err := onnx.Open(s.File)
			require.NoError(t, err)
			defer closer.Close()
			require.NoError(t, graph.RunPasses(m, graph.Pass{Name: "inline", Run: op.InlineFunctions}))
			types, err := op.Infer(m)
			require.NoError(t, err)
			set, err := dataset.LoadDir(filepath.Join(s.Folder, "test_data_set_0"), m.Graph, nil)
			require.NoError(t, err)
			values := make([]*executor.Tensor, len(m.Graph.Values))
			for name, x := range set.Inputs {
				id, _ := m.Graph.Lookup(name)
				values[id] = x
			}
			env, err := executor.BindDims(m.Graph, values, nil)
			require.NoError(t, err)
			side := verify.Side{Model: m, Types: types, Dims: env}
			want, err := verify.Execute(context.Background(), side, set.Inputs,
				verify.Options{Engine: verify.On(cpu.Device{})})
			require.NoError(t, err)
			got, err := verify.Execute(context.Background(), side, set.Inputs,
				verify.Options{Engine: verify.On(device(t, double.Options{}))})
			require.NoError(t, err)
			require.Equal(t, got.Predicted.Arena, got.Measured.Arena)
			t.Logf("copies in a step: %+v", got.Measured.Copies)
			for i, w := range want.Outputs {
				diff, _ := verify.Compare(w.Name, got.Outputs[i].Tensor, w.Tensor, verify.DefaultTolerance)
				require.Nil(t, diff)
			}
		})
	}
}
