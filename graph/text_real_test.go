package graph_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/graphtest"
	"memopt/graph/onnx"
	"memopt/graph/op"
)

// everything are the options that leave nothing out.
var everything = graph.FormatOptions{MaxElements: -1, Extra: true}

// TestTextOfModels prints and parses real models.
func TestTextOfModels(t *testing.T) {
	const root = "../../shared/models"
	if _, err := os.Stat(root); err != nil {
		t.Skip("the sample models are missing; they lie beside the project in ../shared/models: ", err)
	}
	const most = 4 << 20 // bytes of a file, so that the test stays quick
	n := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".onnx") {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > most {
			return err
		}
		n++
		m, closer, err := onnx.Open(path)
		require.NoError(t, err, path)
		defer closer.Close()
		checkText(t, path, m)
		_, err = op.Infer(m)
		require.NoError(t, err, path)
		inferred := graph.Format(m, graph.FormatOptions{Types: true, MaxElements: -1})
		back, err := graph.Parse(inferred, path)
		require.NoError(t, err)
		checkTypes(t, path, m.Graph, back.Graph)
		return nil
	})
	require.NoError(t, err)
	t.Logf("%d models", n)
}

// checkText requires that a model survives its text, and that the text does.
func checkText(t *testing.T, what string, m *graph.Model) {
	t.Helper()
	text := graph.Format(m, everything)
	back, err := graph.Parse(text, what)
	require.NoError(t, err, "%s\n%.4000s", what, text)
	require.NoError(t, graphtest.Equal(m, back), "%s\n%.4000s", what, text)
	if again := graph.Format(back, everything); again != text {
		require.Equal(t, text, again, what)
	}
}

// checkTypes requires that all types that are known survive a text with types.
func checkTypes(t *testing.T, what string, a, b *graph.Graph) {
	t.Helper()
	for i := range a.Values {
		v := &a.Values[i]
		if v.Def == graph.NoNode && !v.Output {
			continue
		}
		id, ok := b.Lookup(v.Name)
		require.True(t, ok, "%s: %s", what, v.Name)
		require.Equal(t, v.Type.String(), b.Values[id].Type.String(), "%s: %s", what, v.Name)
	}
}
