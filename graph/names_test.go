package graph_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// nested has a subgraph in a subgraph; the name "r" occurs in both branches, and "n" on two nodes.
const nested = `g (bool c, float[3] x) => (float[3] z) {
	[a] y = Neg (x)
	[if] z = If (c) <
		then_branch = t () => (float[3] r) <float[1] w = {2}> {
			[n] s = Mul (y, w)
			[in] r = If (c) <then_branch = tt () => (float[3] q) { [d] q = Add (s, x) }, else_branch = te () => (float[3] p) { [e] p = Sub (s, w) }>
		},
		else_branch = e () => (float[3] r) { [n] r = Neg (y) }>
}`

func parse(t *testing.T, text string) *graph.Model {
	t.Helper()
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	return m
}

// TestNames: what is given away is in no graph of the model, and doubles that the file came with
// are no fault of a pass.
func TestNames(t *testing.T) {
	m := parse(t, nested)
	names := graph.NewNames(m)
	require.NoError(t, names.Verify(m))
	require.Equal(t, "q_1", names.Value("q"), "q is a value of an inner graph")
	require.Equal(t, "q_2", names.Value("q"))
	require.Equal(t, "q", names.Node("q"), "values and nodes are apart")
	require.Equal(t, "d_1", names.Node("d"))
	require.True(t, names.TakeValue("new"))
	require.False(t, names.TakeValue("new"))
	require.Equal(t, "new_1", names.Value("new"))
	require.False(t, names.TakeBoth("d"), "a node is called so")
	require.False(t, names.TakeBoth("s"), "a value is called so")
	require.True(t, names.TakeBoth("both"))
	require.Equal(t, "both_1", names.Node("both"))
	require.Equal(t, "both_1", names.Value("both"))

	node := func(m *graph.Model, path ...string) *graph.Node {
		g := m.Graph
		for _, attr := range path {
			g = g.Nodes[1].GraphAttr(attr)
		}
		return g.Nodes[0]
	}
	node(m, "then_branch", "else_branch").Name = "a"
	require.EqualError(t, names.Verify(m), `two nodes are named "a"; names are unique over all graphs of a model`)

	require.EqualError(t, names.Verify(parse(t, strings.ReplaceAll(nested, "q", "p"))),
		`two values are named "p"; names are unique over all graphs of a model`)

	err := graph.RunPasses(parse(t, nested), graph.Pass{Name: "double", Run: func(m *graph.Model) (bool, error) {
		node(m, "then_branch", "then_branch").Name = "e"
		return true, nil
	}})
	require.EqualError(t, err,
		`pass double left the model invalid: two nodes are named "e"; names are unique over all graphs of a model`)
}

// TestRename: a copy of a subgraph stands beside the original, at any depth under names of its own.
func TestRename(t *testing.T) {
	m := parse(t, nested)
	names := graph.NewNames(m)
	outer := m.Graph.Nodes[1]
	copied := outer.GraphAttr("then_branch").Clone(m.Graph)
	names.Rename(copied, "copy/")
	z := m.Graph.Value("z2")
	n := &graph.Node{Name: names.Node("if"), Op: "If", Inputs: outer.Inputs, Outputs: []graph.ValueID{z}}
	n.SetAttr("then_branch", copied)
	n.SetAttr("else_branch", copied.Clone(m.Graph))
	names.Rename(n.GraphAttr("else_branch"), "again/")
	require.NoError(t, m.Graph.AddNode(n))
	require.NoError(t, m.Graph.AddOutput(graph.Decl{Value: z}))
	require.NoError(t, m.Graph.Seal())
	require.NoError(t, graph.Verify(m))
	require.NoError(t, names.Verify(m))
	require.NoError(t, graph.NewNames(parse(t, nested)).Verify(m))

	text := graph.Format(m, graph.FormatOptions{})
	require.Contains(t, text, `["copy/n"] "copy/s" = Mul (y, "copy/w")`)
	require.Contains(t, text, `["copy/d"] "copy/q" = Add ("copy/s", x)`)
	require.Contains(t, text, `["again/copy/e"] "again/copy/p" = Sub ("again/copy/s", "again/copy/w")`)
	require.Contains(t, text, `float[1] "again/copy/w" = {2}`)
}
