package graph_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestFind: names before globs, values before nodes before layers; a glob is of all three.
func TestFind(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 18]>
g (float[4] x) => (float[4] y) {
   ["h.0/mlp/act"] a = Relu (x)
   ["h.0/mlp/drop"] d, mask = Dropout (a)
   ["h.1/mlp/act"] b = Exp (d)
   ["a"] y = Neg (b)
}`, "test.txt")
	require.NoError(t, err)
	g := m.Graph
	for _, c := range []struct {
		text string
		want []string
		by   graph.FoundBy
	}{
		{"a", []string{"a"}, graph.ValueName}, // and not the node of that name
		{"h.0/mlp/drop", []string{"d", "mask"}, graph.NodeName},
		{"h.0", []string{"a", "d", "mask"}, graph.LayerName},
		{"h.*", []string{"a", "d", "mask", "b"}, graph.ByGlob},
		{"*/act", []string{"a", "b"}, graph.ByGlob},
		{"m*,x", []string{"mask", "x"}, graph.ByGlob},
		{"x", []string{"x"}, graph.ValueName},
		{"h.2", nil, graph.NotFound},
		{"", nil, graph.NotFound},
		{"h.1,", []string{"b"}, graph.ByGlob},
	} {
		found, by := g.Find(c.text)
		require.Equal(t, c.by, by, c.text)
		require.True(t, slices.IsSorted(found), c.text)
		var names []string
		for _, v := range found {
			names = append(names, g.ValueName(v))
		}
		require.ElementsMatch(t, c.want, names, c.text)
	}
	names := g.FindableNames()
	for _, name := range []string{"x", "mask", "h.0/mlp/drop", "h.1"} {
		require.Contains(t, names, name)
	}
	require.NotContains(t, names, graph.NoLayer)
}
