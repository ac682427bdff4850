package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
)

// TestVerify breaks a valid model in every way that Verify knows.
func TestVerify(t *testing.T) {
	const text = `g (x, c) => (z)
<float w = {1}>
{
  [a] y = Add (x, w)
  [b] z, "" = If <then_branch = t () => (r) { [in] r = Neg (y) }> (c, "")
}
<domain: "l"> F (a) => (b) { [f] b = Neg (a) }
<domain: "l"> G (a) => (b) { [g] b = l.F (a) }`
	sub := func(m *graph.Model) *graph.Graph { return m.Graph.Nodes[1].GraphAttr("then_branch") }
	value := func(m *graph.Model, name string) *graph.Value {
		id, _ := m.Graph.Lookup(name)
		return &m.Graph.Values[id]
	}
	for _, c := range []struct {
		name  string
		spoil func(m *graph.Model)
		want  string
	}{
		{"valid", func(*graph.Model) {}, ""},
		{"no graph", func(m *graph.Model) { m.Graph = nil }, "test: the model has no graph"},
		{"no body", func(m *graph.Model) { m.Functions[0].Body = nil }, `function "F": has no body`},
		{"renamed", func(m *graph.Model) { value(m, "x").Name = "y" },
			`graph "g": value 0 is named "y", which is the name of value 4`},
		{"renamed afresh", func(m *graph.Model) { value(m, "x").Name = "new" },
			`graph "g": value 0 is named "new", which is the name of value 0`},
		{"value without a name of its own", func(m *graph.Model) {
			m.Graph.Values = append(m.Graph.Values, graph.Value{Name: "x"})
		}, `graph "g": 6 values share 5 names`},
		{"foreign producer", func(m *graph.Model) { value(m, "y").Def = 1 },
			`graph "g": value "y" says that output 0 of node 1 makes it, which does not`},
		{"producer that does not exist", func(m *graph.Model) { value(m, "y").Def = 9 },
			`graph "g": value "y" says that output 0 of node 9 makes it, which does not`},
		{"wrong slot", func(m *graph.Model) { value(m, "z").DefSlot = 1 },
			`graph "g": value "z" says that output 1 of node 1 makes it, which does not`},
		{"negative slot", func(m *graph.Model) { value(m, "z").DefSlot = -1 },
			`graph "g": value "z" says that output -1 of node 1 makes it, which does not`},
		{"made and given", func(m *graph.Model) { value(m, "y").Input = true },
			`graph "g": value "y" has two producers: node "a" and the graph's inputs or initializers`},
		{"wrong ID", func(m *graph.Model) { m.Graph.Nodes[1].ID = 0 }, `graph "g": node 1 says that its ID is 0`},
		{"input that does not exist", func(m *graph.Model) { m.Graph.Nodes[0].Inputs[0] = 99 },
			`node "a": input 0 is value 99, which does not exist`},
		{"input without a producer", func(m *graph.Model) { m.Graph.Nodes[0].Inputs[0] = m.Graph.Value("new") },
			`node "a" (Add): input 0: value "new" has no producer`},
		{"output of another", func(m *graph.Model) { m.Graph.Nodes[1].Outputs[1] = m.Graph.Nodes[0].Outputs[0] },
			`node "b" (If): output 1: the value does not point back at it`},
		{"output that does not exist", func(m *graph.Model) { m.Graph.Nodes[1].Outputs[1] = -7 },
			`node "b" (If): output 1: the value does not point back at it`},
		{"graph output without a producer", func(m *graph.Model) { m.Graph.Outputs[0].Value = m.Graph.Value("new") },
			`graph "g": output 0: value "new" has no producer`},
		{"foreign subgraph", func(m *graph.Model) { sub(m).Outer = nil },
			`node "b": subgraph "then_branch" does not point at its enclosing graph`},
		{"capture of nothing", func(m *graph.Model) { sub(m).Values[sub(m).Nodes[0].Inputs[0]].Outer = 77 },
			`node "b": subgraph "then_branch": value "y" is value "77" of the enclosing graph, which has no producer`},
		{"unsealed subgraph", func(m *graph.Model) { sub(m).Values[sub(m).Nodes[0].Inputs[0]].Outer = graph.NoValue },
			`node "in" (Neg): input 0: value "y" has no producer`},
		{"stale captures", func(m *graph.Model) { m.Graph.Nodes[1].SetRare(graph.Rare{}) },
			`node "b" (If): its list of captured values is stale`},
		{"inside a subgraph", func(m *graph.Model) { sub(m).Nodes[0].ID = 5 },
			`graph "t": node 0 says that its ID is 5`},
		{"cycle", func(m *graph.Model) { m.Graph.Nodes[0].Inputs[1] = m.Graph.Nodes[1].Outputs[0] },
			`graph "g": its nodes form a cycle: b → a → b`},
		{"inside a function", func(m *graph.Model) { m.Functions[0].Body.Nodes[0].ID = 5 },
			`function "F": graph "F": node 0 says that its ID is 5`},
		{"recursion", func(m *graph.Model) {
			m.Functions[0].Body.Nodes[0].Op, m.Functions[0].Body.Nodes[0].Domain = "G", "l"
		}, `function "F" calls itself: F → G → F`},
		{"function defined twice", func(m *graph.Model) { m.Functions = append(m.Functions, m.Functions[1]) },
			`function "G" of domain "l" is defined twice`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := graph.Parse(text, "test")
			require.NoError(t, err)
			c.spoil(m)
			err = graph.Verify(m)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
}

func TestRunPasses(t *testing.T) {
	model := func() *graph.Model {
		m, err := graph.Parse("g (x) => (y) { [n] y = Neg (x) }", "test")
		require.NoError(t, err)
		return m
	}
	var ran []string
	pass := func(name string, changed bool, edit func(*graph.Model) error) graph.Pass {
		return graph.Pass{Name: name, Run: func(m *graph.Model) (bool, error) {
			ran = append(ran, name)
			return changed, edit(m)
		}}
	}
	keep := func(*graph.Model) error { return nil }
	spoil := func(m *graph.Model) error { m.Graph.Nodes[0].ID = 3; return nil }
	fail := func(*graph.Model) error { return graph.ErrElided }

	require.NoError(t, graph.RunPasses(model(), pass("a", false, keep), pass("b", true, keep)))
	require.Equal(t, []string{"a", "b"}, ran)

	ran = nil
	err := graph.RunPasses(model(), pass("a", true, spoil), pass("b", true, keep))
	require.EqualError(t, err, `pass a left the model invalid: graph "g": node 0 says that its ID is 3`)
	require.Equal(t, []string{"a"}, ran)

	// A pass that says it changed nothing is believed.
	require.NoError(t, graph.RunPasses(model(), pass("a", false, spoil)))

	err = graph.RunPasses(model(), pass("a", true, fail), pass("b", true, keep))
	require.ErrorIs(t, err, graph.ErrElided)
	require.ErrorContains(t, err, "a: ")
}
