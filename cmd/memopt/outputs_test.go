package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/dataset"
	"memopt/executor/npz"
	"memopt/graph"
	"memopt/graph/onnx"
)

// TestOutputNames: values whose names are no names of files, or each other's, keep apart and stay
// in the folder; what is saved is found again.
func TestOutputNames(t *testing.T) {
	names := []string{"plain", "a/b", "a%2Fb", "a%2fb", "../../escaped", "/absolute", "..", ".", "A", "a", "x:0",
		"new\nline", "\u202e", "=1+1", strings.Repeat("long/", 80) + "1", strings.Repeat("long/", 80) + "2", `C:\x`}
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (plain) { plain = Neg(x) }`, "g")
	require.NoError(t, err)
	g := m.Graph
	for _, name := range names[1:] {
		v := g.Value(name)
		require.NoError(t,
			g.AddNode(&graph.Node{Op: "Neg", Inputs: []graph.ValueID{g.Value("x")}, Outputs: []graph.ValueID{v}}))
		require.NoError(t, g.AddOutput(graph.Decl{Value: v}))
	}
	dir := t.TempDir()
	model := filepath.Join(dir, "model.onnx")
	require.NoError(t, onnx.WriteFile(model, m, onnx.Options{}))
	data := filepath.Join(dir, "deep", "data")
	require.NoError(t, os.MkdirAll(filepath.Dir(data), 0o777))
	for _, out := range []string{data, data + ".npz"} {
		got := inProcess(t.Context(), nil, "run "+model+" --init random:1 --save-outputs "+out)
		require.Zero(t, got.code, got.errors)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	entries, err = os.ReadDir(filepath.Dir(data))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for _, name := range names {
		saved, err := dataset.ReadTensor(filepath.Join(data, dataset.FileName(name)))
		require.NoError(t, err)
		require.Equal(t, name, saved.Name)
	}
	arrays, err := npz.Read(data + ".npz")
	require.NoError(t, err)
	require.Len(t, arrays, len(names))
	set, err := dataset.Load(data+".npz", g)
	require.NoError(t, err)
	require.Len(t, set.Outputs, len(names))
	for i, name := range names {
		require.Equal(t, name, set.Outputs[i].Name)
	}
}
