package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/chunk"
)

// TestCutsText: regions and parts are counted, and a single region whose parts have other bits than
// the whole makes the plan, and the mode that allows it, inexact.
func TestCutsText(t *testing.T) {
	exact, other := chunk.Cut{Parts: 4, Exact: true}, chunk.Cut{Parts: 3}
	for _, c := range []struct {
		cuts *Cuts
		text string
		mode chunk.Mode
	}{
		{nil, "", chunk.Exact},
		{&Cuts{}, "", chunk.Exact},
		{&Cuts{List: []chunk.Cut{exact}}, "1 region in 4 parts", chunk.Exact},
		{&Cuts{List: []chunk.Cut{exact, exact}}, "2 regions in 8 parts", chunk.Exact},
		{&Cuts{List: []chunk.Cut{exact, other}}, "2 regions in 7 parts, not bit-equal", chunk.Fast},
	} {
		require.Equal(t, c.text, c.cuts.Text())
		require.Equal(t, c.mode == chunk.Exact, c.cuts.Exact(), c.text)
		if c.cuts != nil {
			require.Equal(t, c.mode, modeOf(c.cuts.List), c.text)
		}
	}
}

// TestWithScratch: a kernel's workspace lives beside the values inside its node, and the sizes that
// were given stay as they are.
func TestWithScratch(t *testing.T) {
	given := &live.Sizes{Inner: []int64{5, 0, 7}}
	require.Equal(t, []int64{15, 20, 37}, withScratch(given, []int64{10, 20, 30}).Inner)
	require.Equal(t, []int64{5, 0, 7}, given.Inner)
	require.Same(t, given, withScratch(given, nil))
}

// TestNamesInParts: a text that finds values of a node in parts names all that its parts make of them;
// one that finds inputs, or values that are made as before, stays or names the present nodes.
func TestNamesInParts(t *testing.T) {
	parse := func(text string) *graph.Model {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "g")
		require.NoError(t, err)
		return m
	}
	whole := parse(`g (float[4] x) => (float[4] y) { a = Exp (x)
		b, c = Split (a)  d = Concat <axis = 0> (b, c)  y = Tanh (d) }`)
	parts := parse(`g (float[4] x) => (float[4] y) { a0 = Exp (x)  a1 = Exp (x)  a = Concat <axis = 0> (a0, a1)
		b, c = Split (a)  d = Concat <axis = 0> (b, c)  y = Tanh (d) }`)
	f := &chunk.Applied{Model: parts, Origin: []graph.NodeID{0, 0, graph.NoNode, 1, 2, 3}}
	for text, want := range map[string][]string{"a": {"a0", "a1"}, "b": {"b"}, "c": {"c"}, "y": {"y"}, "x": {"x"},
		"unknown": {"unknown"}} {
		require.Equal(t, want, madeByParts(whole.Graph, f, text), text)
		require.Equal(t, text != "x" && text != "unknown", stillMade(whole.Graph, text), text)
	}
	require.Equal(t, []int{7, 7, -1, 8, 9, 6}, byPart(f, []int{7, 8, 9, 6}, -1))
}
