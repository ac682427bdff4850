package graphtest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
)

// TestRandom checks that the graphs are valid, that shape inference agrees with what they
// declare, that they survive their text and that a seed decides everything.
func TestRandom(t *testing.T) {
	for seed := range uint64(40) {
		o := graphtest.Options{Nodes: 1 + int(seed)*8, Symbolic: seed%2 == 0}
		m := graphtest.Random(rand.New(rand.NewPCG(seed, 1)), o)
		check(t, seed, m)
		require.GreaterOrEqual(t, len(m.Graph.Nodes), o.Nodes)
		require.LessOrEqual(t, len(m.Graph.Nodes), o.Nodes+2)
		again := graphtest.Random(rand.New(rand.NewPCG(seed, 1)), o)
		require.NoError(t, graphtest.Equal(m, again))
	}
}

func TestTraining(t *testing.T) {
	held := map[string]int{} // by operator: values that subgraphs read
	for seed := range uint64(40) {
		o := graphtest.Options{Nodes: 20 + int(seed)*8, Symbolic: seed%2 == 0, Yield: seed%3 == 0, Layers: seed%5 == 0}
		check(t, seed, graphtest.Training(rand.New(rand.NewPCG(seed, 1)), o))
		o.Control, o.Width, o.Rows = true, int64(1+seed), int64(1+seed%7)
		m := graphtest.Training(rand.New(rand.NewPCG(seed, 2)), o)
		check(t, seed, m)
		for _, n := range m.Graph.Nodes {
			held[n.Op] += len(n.Captures())
		}
	}
	require.Positive(t, held["If"])
	require.Positive(t, held["Loop"])
}

func check(t *testing.T, seed uint64, m *graph.Model) {
	t.Helper()
	require.NoError(t, graph.Verify(m), "seed %d", seed)
	text := graph.Format(m, graph.FormatOptions{MaxElements: -1})
	back, err := graph.Parse(text, "text")
	require.NoError(t, err, "seed %d", seed)
	require.NoError(t, graphtest.Equal(m, back), "seed %d", seed)

	// Inference on its own, without what the graph declares of inner values.
	declared := map[string]string{}
	for _, d := range back.Graph.ValueInfo {
		declared[back.Graph.ValueName(d.Value)] = d.Type.String()
		back.Graph.Values[d.Value].Type = graph.Type{}
	}
	back.Graph.ValueInfo = nil
	r, err := op.Infer(back)
	require.NoError(t, err, "seed %d", seed)
	require.Empty(t, r.Conflicts, "seed %d", seed)
	require.Empty(t, r.NoRow, "seed %d", seed)
	for i := range back.Graph.Values {
		v := &back.Graph.Values[i]
		if want, ok := declared[v.Name]; ok {
			require.Equal(t, want, v.Type.String(), "seed %d: %s", seed, v.Name)
		}
		require.True(t, v.Type.Shape.Known(), "seed %d: %s: %v", seed, v.Name, v.Type)
	}
}

// TestEqual changes one thing at a time of a model that has everything.
func TestEqual(t *testing.T) {
	const text = `<ir_version: 8, opset_import: ["": 17], metadata_props: ["k": "v"]>
g (float[N, 2] x, c) => (y) <float[N] t, float[2] w = {1, nan}, sparse_tensor(float[3]) s = {float[1] {1}, int64[1] {2}}>
{
  [n] t = Op <i = 1, f = 0.0, l = [1, 2], t = string {"a"}, r = @x, ty = seq(float)> (x, "", w)
  y = If <b = s () => (z) { z = Neg (t) }> (c)
}
<domain: "l"> F <a, b = 1> (p) => (q) { q = Neg (p) }`
	parse := func() *graph.Model {
		m, err := graph.Parse(text, "test")
		require.NoError(t, err)
		return m
	}
	require.NoError(t, graphtest.Equal(parse(), parse()))
	for _, c := range []struct {
		edit func(m *graph.Model)
		want string
	}{
		{func(m *graph.Model) { m.IRVersion = 9 }, "ir_version: 8 and 9"},
		{func(m *graph.Model) { m.Opsets[0].Version = 18 }, "operator set 0: version: 17 and 18"},
		{func(m *graph.Model) { m.Metadata = nil }, "metadata entry: 1 and 0 of them"},
		{func(m *graph.Model) { m.Extra = []byte{1} }, "extra:  and 01"},
		{func(m *graph.Model) { m.Graph.Name = "h" }, `graph "g": name: "g" and "h"`},
		{func(m *graph.Model) { m.Graph.Inputs[0].Type.Shape = graph.Ints(3, 2) },
			`graph "g": input 0: dim 0: N and 3`},
		{func(m *graph.Model) { m.Graph.Inputs[0].Type.Shape = graph.Shape{} }, `graph "g": input 0: rank: 2 and -1`},
		{func(m *graph.Model) { m.Graph.ValueInfo[0].Doc = "d" }, `graph "g": value_info 0: doc_string: "" and "d"`},
		{func(m *graph.Model) {
			m.Graph.Values[m.Graph.Initializers[0]].Data.Source = graph.Raw("\x00\x00\x80\x3f\x01\x00\xc0\x7f")
		}, `graph "g": initializer 0: contents: 00 00 80 3f 00 00 c0 7f and 00 00 80 3f 01 00 c0 7f`},
		{func(m *graph.Model) { m.Graph.Values[m.Graph.Sparse[0]].SparseData.Dims[0] = 4 },
			`graph "g": sparse initializer 0: dim 0: size: 3 and 4`},
		{func(m *graph.Model) { m.Graph.Nodes[0].Op = "O" }, `graph "g": node 0: operator: "Op" and "O"`},
		{func(m *graph.Model) { m.Graph.Nodes[0].Inputs[1] = 0 }, `graph "g": node 0: input 1: value: "" and "x"`},
		{func(m *graph.Model) { m.Graph.Nodes[0].SetAttr("i", float32(1)) },
			`graph "g": node 0: attribute 0: "i": type of the value: int64 and float32`},
		{func(m *graph.Model) { m.Graph.Nodes[0].IntList("l", nil)[1] = 3 },
			`graph "g": node 0: attribute 2: "l": element 1: value: 2 and 3`},
		{func(m *graph.Model) { m.Graph.Nodes[0].TensorAttr("t").Strings[0] = "b" },
			`graph "g": node 0: attribute 3: "t": string 0: value: "a" and "b"`},
		{func(m *graph.Model) { m.Graph.Nodes[0].Attrs[4].Ref = "z" },
			`graph "g": node 0: attribute 4: "r": reference: "x" and "z"`},
		{func(m *graph.Model) { m.Graph.Nodes[0].SetAttr("ty", graph.Type{Form: graph.FormSequence}) },
			`graph "g": node 0: attribute 5: "ty": only one has a type inside`},
		{func(m *graph.Model) { m.Graph.Nodes[1].GraphAttr("b").Nodes[0].Op = "Abs" },
			`graph "g": node 1: attribute 0: "b": graph "s": node 0: operator: "Neg" and "Abs"`},
		{func(m *graph.Model) { m.Graph.Nodes[1].SetRare(graph.Rare{}) }, `graph "g": node 1: captures: ["t"] and []`},
		{func(m *graph.Model) { m.Functions[0].AttrNames[0] = "z" }, `function 0: attribute name 0: name: "a" and "z"`},
	} {
		m := parse()
		c.edit(m)
		require.EqualError(t, graphtest.Equal(parse(), m), c.want)
	}
	require.NoError(t, graphtest.EqualGraph(parse().Graph, parse().Graph))
}

func BenchmarkRandom(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				graphtest.Random(rand.New(rand.NewPCG(1, 1)), graphtest.Options{Nodes: nodes})
			}
		})
	}
}
