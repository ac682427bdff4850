package examples_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
)

// Small options, so that failures are readable.
var (
	smallTransformer = examples.TransformerOptions{Layers: 2, Hidden: 12, Heads: 3, FFN: 20, Vocab: 17, Positions: 9}
	smallHalf        = examples.TransformerOptions{Layers: 2, Hidden: 12, Heads: 3, FFN: 20, Vocab: 17, Positions: 9,
		Half: true, FastGelu: true}
	smallMLP = examples.MLPOptions{Layers: 2, Inputs: 5, Hidden: 7, Classes: 4}
	smallCNN = examples.CNNOptions{Stages: 2, Blocks: 2, Channels: 3, Side: 4, Classes: 5}
)

type namedBuild struct {
	name  string
	build func() (*graph.Model, error)
}

// builds are the built-in examples and small ones of each kind.
func builds() []namedBuild {
	list := []namedBuild{
		{"small transformer", func() (*graph.Model, error) { return examples.Transformer(smallTransformer) }},
		{"small transformer-fp16", func() (*graph.Model, error) { return examples.Transformer(smallHalf) }},
		{"small mlp", func() (*graph.Model, error) { return examples.MLP(smallMLP) }},
		{"small cnn", func() (*graph.Model, error) { return examples.CNN(smallCNN) }},
	}
	for _, e := range examples.All() {
		list = append(list, namedBuild{e.Name, e.Build})
	}
	return list
}

func forEachBuild(t *testing.T, f func(t *testing.T, m *graph.Model)) {
	for _, b := range builds() {
		t.Run(b.name, func(t *testing.T) {
			m, err := b.build()
			require.NoError(t, err)
			f(t, m)
		})
	}
}

func TestAllAndLookup(t *testing.T) {
	all := examples.All()
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Name
		found, ok := examples.Lookup(e.Name)
		require.True(t, ok, e.Name)
		assert.Equal(t, e.Summary, found.Summary)
		assert.NotEmpty(t, e.Summary)
	}
	assert.Equal(t, []string{"cnn", "mlp", "transformer", "transformer-fp16", "transformer-small"}, names)
	_, ok := examples.Lookup("transformers")
	assert.False(t, ok)
}

func TestCallersCannotChangeTheDefaults(t *testing.T) {
	e, _ := examples.Lookup("mlp")
	e.Dims["batch"] = 1
	again, _ := examples.Lookup("mlp")
	assert.NotEqual(t, int64(1), again.Dims["batch"])
}

// TestDimsBindEverySymbol: an example runs without --dim.
func TestDimsBindEverySymbol(t *testing.T) {
	for _, e := range examples.All() {
		m, err := e.Build()
		require.NoError(t, err)
		symbols := map[string]bool{}
		for _, d := range m.Graph.Inputs {
			for _, dim := range d.Type.Shape.Dims {
				for _, s := range dim.Symbols() {
					symbols[s] = true
				}
			}
		}
		assert.Len(t, e.Dims, len(symbols), e.Name)
		for s := range symbols {
			assert.Positive(t, e.Dims[s], "%s: %s", e.Name, s)
		}
	}
}

func TestModelsAreValidAndInOrder(t *testing.T) {
	forEachBuild(t, func(t *testing.T, m *graph.Model) {
		require.NoError(t, graph.Verify(m))
		assert.NoError(t, graph.FileOrder(m.Graph).Check(m.Graph))
	})
}

func TestBuildingTwiceGivesTheSameModel(t *testing.T) {
	for _, b := range builds() {
		first, err := b.build()
		require.NoError(t, err)
		second, err := b.build()
		require.NoError(t, err)
		assert.Equal(t, listing(first), listing(second), b.name)
		assert.Equal(t, first, second, b.name)
	}
}

// isWeight tells weights from data and running statistics by what the
// generators promise: static float inputs, statistics named running_*.
func isWeight(g *graph.Graph, d graph.Decl) bool {
	_, symbolic := firstSymbol(d.Type.Shape)
	return d.Type.DType.IsFloat() && !symbolic && !strings.Contains(g.ValueName(d.Value), ".running_")
}

func firstSymbol(s graph.Shape) (string, bool) {
	for _, d := range s.Dims {
		if names := d.Symbols(); len(names) > 0 {
			return names[0], true
		}
	}
	return "", false
}

func TestEveryWeightHasAGradientOfItsType(t *testing.T) {
	forEachBuild(t, func(t *testing.T, m *graph.Model) {
		g := m.Graph
		var want, got []string
		for _, d := range g.Inputs {
			if isWeight(g, d) {
				want = append(want, fmt.Sprintf("%s_grad %v", g.ValueName(d.Value), d.Type))
			}
		}
		for _, d := range g.Outputs {
			if name := g.ValueName(d.Value); strings.HasSuffix(name, "_grad") {
				got = append(got, fmt.Sprintf("%s %v", name, d.Type))
			}
		}
		assert.NotEmpty(t, got)
		assert.Equal(t, want, got)
	})
}

// TestNothingIsMadeInVain: every node output is read, returned, or one of the outputs that
// an operator has to have.
func TestNothingIsMadeInVain(t *testing.T) {
	forEachBuild(t, func(t *testing.T, m *graph.Model) {
		g := m.Graph
		uses := graph.NewUses(g)
		for id := range g.Values {
			v := &g.Values[id]
			if v.Output || len(uses.Of(graph.ValueID(id))) > 0 {
				continue
			}
			assert.Failf(t, "unread value", "%s", v.Name)
		}
	})
}

func TestNodeNamesAreUnique(t *testing.T) {
	forEachBuild(t, func(t *testing.T, m *graph.Model) {
		seen := map[string]bool{}
		for _, n := range m.Graph.Nodes {
			assert.NotEmpty(t, n.Name)
			assert.False(t, seen[n.Name], n.Name)
			seen[n.Name] = true
		}
	})
}

func nodesOf(t *testing.T, m *graph.Model, err error) int {
	require.NoError(t, err)
	return len(m.Graph.Nodes)
}

// assertLinear checks that f(n) = f(1) + (n-1)·(f(2)-f(1)).
func assertLinear(t *testing.T, f func(n int) int) {
	one, step := f(1), f(2)-f(1)
	assert.Positive(t, step)
	for _, n := range []int{3, 4, 10} {
		assert.Equal(t, one+(n-1)*step, f(n), "n = %d", n)
	}
}

func TestNodesAreLinearInLayers(t *testing.T) {
	for _, half := range []bool{false, true} {
		assertLinear(t, func(n int) int {
			m, err := examples.Transformer(examples.TransformerOptions{Layers: n, Half: half})
			return nodesOf(t, m, err)
		})
	}
	assertLinear(t, func(n int) int {
		m, err := examples.MLP(examples.MLPOptions{Layers: n})
		return nodesOf(t, m, err)
	})
	assertLinear(t, func(n int) int {
		m, err := examples.CNN(examples.CNNOptions{Blocks: n})
		return nodesOf(t, m, err)
	})
}

func TestBadOptionsAreErrors(t *testing.T) {
	cases := []struct {
		want  string
		build func() (*graph.Model, error)
	}{
		{"transformer: Hidden is 10, which 3 Heads do not divide", func() (*graph.Model, error) {
			return examples.Transformer(examples.TransformerOptions{Hidden: 10, Heads: 3})
		}},
		{"transformer: Layers is -1; it must be in [1, 1048576]", func() (*graph.Model, error) {
			return examples.Transformer(examples.TransformerOptions{Layers: -1})
		}},
		{"transformer: Dropout is 1; it must be in (0, 1)", func() (*graph.Model, error) {
			return examples.Transformer(examples.TransformerOptions{Dropout: 1})
		}},
		{"mlp: Classes is 1048577", func() (*graph.Model, error) {
			return examples.MLP(examples.MLPOptions{Classes: 1<<20 + 1})
		}},
		{"cnn: Side is 6, which cannot be halved 2 times", func() (*graph.Model, error) {
			return examples.CNN(examples.CNNOptions{Side: 6})
		}},
		{"cnn: Stages is 17; it must be in [1, 16]", func() (*graph.Model, error) {
			return examples.CNN(examples.CNNOptions{Stages: 17})
		}},
		{"cnn: 1048576 Channels doubled 2 times", func() (*graph.Model, error) {
			return examples.CNN(examples.CNNOptions{Channels: 1 << 20})
		}},
	}
	for _, c := range cases {
		_, err := c.build()
		assert.ErrorContains(t, err, c.want)
	}
}

func TestMLPUsesONNXOperatorsOnly(t *testing.T) {
	m, err := examples.MLP(smallMLP)
	require.NoError(t, err)
	assert.Len(t, m.Opsets, 1)
	for _, n := range m.Graph.Nodes {
		assert.Empty(t, n.Domain, n.Name)
	}
	assert.Equal(t, "loss", m.Graph.ValueName(m.Graph.Outputs[0].Value))
}

// TestWeightGradientsComeEarly: in the file, a weight's gradient stands right behind the
// gradient that it is made from, so that no order of passes is needed to free
// activations early.
func TestWeightGradientsComeEarly(t *testing.T) {
	m, err := examples.MLP(smallMLP)
	require.NoError(t, err)
	g := m.Graph
	for _, layer := range []string{"layers.1", "head"} {
		w, ok := g.Lookup(layer + ".weight_grad")
		require.True(t, ok)
		n := g.Nodes[g.Values[w].Def]
		dy := g.Values[n.Inputs[0]].Def
		assert.Equal(t, dy+1, n.ID, layer)
	}
}

// listing prints a model as text: one line per declaration and node.
func listing(m *graph.Model) string {
	g := m.Graph
	var s strings.Builder
	decls := func(what string, list []graph.Decl) {
		for _, d := range list {
			fmt.Fprintf(&s, "%s %s %v\n", what, g.ValueName(d.Value), d.Type)
		}
	}
	names := func(list []graph.ValueID) string {
		out := make([]string, len(list))
		for i, id := range list {
			out[i] = g.ValueName(id)
			if id == graph.NoValue {
				out[i] = "-"
			}
		}
		return strings.Join(out, ", ")
	}
	decls("input", g.Inputs)
	for _, id := range g.Initializers {
		raw, err := g.Values[id].Data.Source.Bytes()
		fmt.Fprintf(&s, "constant %s %v %x %v\n", g.Values[id].Name, g.Values[id].Type, raw, err)
	}
	for _, n := range g.Nodes {
		attrs := make([]string, len(n.Attrs))
		for i, a := range n.Attrs {
			attrs[i] = fmt.Sprintf("%s=%v", a.Name, a.Value)
		}
		slices.Sort(attrs)
		fmt.Fprintf(&s, "%s\n  %s = %s(%s) %s\n", n.Name, names(n.Outputs), n.Op, names(n.Inputs),
			strings.Join(attrs, " "))
	}
	decls("output", g.Outputs)
	return s.String()
}
