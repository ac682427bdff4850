package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
)

// everything are the options that leave nothing out.
var everything = graph.FormatOptions{MaxElements: -1, Extra: true}

// TestTextOfModels prints and parses real models.
func TestTextOfModels(t *testing.T) {
	for _, s := range graphtest.AllSamples.Files(t) {
		t.Run(s.Name, func(t *testing.T) {
			m, closer, err := onnx.Open(s.File)
			require.NoError(t, err)
			defer closer.Close()
			checkText(t, s.Name, m)
			_, err = op.Infer(m)
			require.NoError(t, err)
			inferred := graph.Format(m, graph.FormatOptions{Types: true, MaxElements: -1})
			back, err := graph.Parse(inferred, s.Name)
			require.NoError(t, err)
			checkTypes(t, s.Name, m.Graph, back.Graph)
		})
	}
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
