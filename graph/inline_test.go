package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestInline runs testdata/inline.txt. "inline" parses a model, inlines its functions and prints
// it, or the error. What it prints has been verified.
func TestInline(t *testing.T) {
	datadriven.RunTest(t, "testdata/inline.txt", func(t *testing.T, d *datadriven.TestData) string {
		m, err := graph.Parse(d.Input, "test")
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		before, names := meaning(m), graph.NewNames(m)
		changed, err := graph.InlineFunctions(m, nil)
		if err != nil {
			return err.Error() + "\n"
		}
		require.NoError(t, graph.Verify(m), d.Pos)
		require.NoError(t, names.Verify(m), d.Pos)
		require.Equal(t, before, meaning(m), "%s: inlining changed what the outputs are computed from", d.Pos)
		return fmt.Sprintf("%schanged: %v\n", graph.Format(m, everything), changed)
	})
}

// TestInlineTower holds that functions which call functions twice each fail at once.
func TestInlineTower(t *testing.T) {
	tower := func(levels, calls int, body string) string {
		var b strings.Builder
		b.WriteString("<opset_import: [\"\": 17]> g (x) => (y) { [top] y = l.f0 (x) }\n")
		for i := range levels {
			fmt.Fprintf(&b, "<domain: \"l\", opset_import: [\"\": 17]> f%d (a) => (z) {\n", i)
			from := "a"
			for k := range calls {
				fmt.Fprintf(&b, "v%d = l.f%d (%s)\n", k, i+1, from)
				from = fmt.Sprintf("v%d", k)
			}
			fmt.Fprintf(&b, "z = Identity (%s) }\n", from)
		}
		fmt.Fprintf(&b, "<domain: \"l\", opset_import: [\"\": 17]> f%d (a) => (z) { %s }\n", levels, body)
		return b.String()
	}
	for _, c := range []struct {
		name, text, want string
	}{
		{"nodes", tower(60, 2, "z = Neg (a)"), "inlining the model's functions makes more than 2000000 nodes"},
		{"operands", tower(13, 2, "z = Sum ("+strings.Repeat("a, ", 20_000)+"a)"),
			"makes more than 67108864 operands, attributes and values"},
		{"depth", tower(300, 1, "z = Neg (a)"), "functions call each other more than 256 deep"},
		{"subgraphs", passedTower(30),
			"makes more than 67108864 operands, attributes and values (a subgraph counts as 512)"},
	} {
		m, err := graph.Parse(c.text, c.name)
		require.NoError(t, err, c.name)
		_, err = graph.InlineFunctions(m, nil)
		require.ErrorContains(t, err, c.want, c.name)
	}
	m, err := graph.Parse(tower(10, 2, "z = Neg (a)"), "small")
	require.NoError(t, err)
	_, err = graph.InlineFunctions(m, nil)
	require.NoError(t, err)
	require.Len(t, m.Graph.Nodes, 1<<10+1<<10-1, "2^10 Negs and an Identity for each call above them")
	require.Equal(t, "top/f1#0/f2#0/f3#0/f4#0/f5#0/f6#0/f7#0/f8#0/f9#0/f10#0/Neg#0", m.Graph.Nodes[0].Name)
}

// passedTower is a model in which every call passes a subgraph on that the callee has in two
// places: it grows without any function having many nodes.
func passedTower(levels int) string {
	var b strings.Builder
	b.WriteString("<opset_import: [\"\": 17]> g (c) => (y) { y = l.f0 <b = s () => (r) { r = Neg (c) }> (c) }\n")
	for i := range levels {
		fmt.Fprintf(&b,
			"<domain: \"l\"> f%d <b> (a) => (z) { z = l.f%d <b = s () => (r) { r = If <then_branch = @b, "+
				"else_branch = @b> (a) }> (a) }\n", i, i+1)
	}
	fmt.Fprintf(&b, "<domain: \"l\"> f%d <b> (a) => (z) { z = If <then_branch = @b, else_branch = @b> (a) }\n", levels)
	return b.String()
}
