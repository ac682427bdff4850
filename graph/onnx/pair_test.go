package onnx_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/fileio"
)

// TestModelSurvives: while a model with external data takes the place of another, what a kill would
// leave opens at every step, with the numbers of the old one or of the new one; in the end the
// files are those of a model that takes nobody's place.
func TestModelSurvives(t *testing.T) {
	withData := func(fill byte) *graph.Model {
		m := &graph.Model{IRVersion: 8, Graph: graph.New("g", nil), Opsets: []graph.Opset{{Version: 17}}}
		data := make([]byte, 100_000)
		for i := range data {
			data[i] = fill
		}
		_, err := m.Graph.AddInitializer(&graph.TensorData{Name: "w", DType: graph.Uint8,
			Dims: []int64{int64(len(data))}, Source: graph.Raw(data)})
		require.NoError(t, err)
		return m
	}
	numbers := func(path string) byte {
		m := open(t, path)
		require.NotNil(t, externalOf(t, m.Graph, "w"))
		data, err := m.Graph.Values[m.Graph.Value("w")].Data.Source.Bytes()
		require.NoError(t, err)
		require.Len(t, data, 100_000)
		for _, b := range data {
			require.Equal(t, data[0], b)
		}
		return data[0]
	}
	opts := onnx.Options{ExternalDataThreshold: 1}
	alone := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, onnx.WriteFile(alone, withData(2), opts))
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	require.NoError(t, onnx.WriteFile(path, withData(1), opts))
	seen := map[byte]int{}
	end := fileio.Observe(func(string, string) {
		left := t.TempDir()
		require.NoError(t, os.CopyFS(left, os.DirFS(dir)))
		seen[numbers(filepath.Join(left, "m.onnx"))]++
	})
	require.NoError(t, onnx.WriteFile(path, withData(2), opts))
	end()
	require.Len(t, seen, 2)
	require.Greater(t, seen[1], 5)
	require.Greater(t, seen[2], 5)
	require.Equal(t, []string{"m.onnx", "m.onnx.data"}, folder(t, dir))
	for _, suffix := range []string{"", ".data"} {
		want, err := os.ReadFile(alone + suffix)
		require.NoError(t, err)
		got, err := os.ReadFile(path + suffix)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
