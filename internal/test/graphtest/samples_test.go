package graphtest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/internal/test/graphtest"
)

// TestSamples: what lies beside the listed samples does not count, and a listed one that is missing
// is an error.
func TestSamples(t *testing.T) {
	root := t.TempDir()
	write := func(path string) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	write("project/go.mod")
	write("project/deep/down/x.go")
	t.Chdir(filepath.Join(root, "project/deep/down"))
	list, err := graphtest.AllSamples.Find()
	require.NoError(t, err)
	require.Empty(t, list)

	for _, name := range []string{"gelu", "gpt2_tiny", "gpt2_tiny_new"} {
		write("shared/models/" + name + "/model.onnx")
	}
	write("shared/models/ort/new.onnx")
	_, err = graphtest.AllSamples.Find()
	require.ErrorContains(t, err, "sample model cnn_bn_tiny")

	for _, name := range []string{"3layer_bloom_optimized_training", "recompute_gelu", "recompute_tile",
		"training_model"} {
		write("shared/models/ort/" + name + ".onnx")
	}
	list, err = graphtest.ORTGraphs.Find()
	require.NoError(t, err)
	require.Len(t, list, 4)
	for _, s := range list {
		require.FileExists(t, s.File)
		require.NotEqual(t, "new", s.Name)
	}
}
