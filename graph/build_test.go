package graph_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/symbolic"
)

func names(g *graph.Graph, ids []graph.ValueID) (list []string) {
	for _, id := range ids {
		list = append(list, g.ValueName(id))
	}
	return list
}

// TestCaptures checks what nodes capture through two levels of subgraphs.
func TestCaptures(t *testing.T) {
	g := parseGraph(t, `g (x, c) => (z)
<float w = {1}>
{
  y = Neg (x)
  z = If <then_branch = t () => (r) {
    k = Neg (x)
    r = If <then_branch = tt () => (s) { s = Sum (y, k, w) }, else_branch = ee () => (y) {}> (c)
  }, else_branch = e () => (w) {}> (c)
}`)
	outer := g.Nodes[1]
	require.ElementsMatch(t, []string{"x", "y", "w", "c"}, names(g, outer.Captures()))
	require.IsIncreasing(t, outer.Captures())
	middle := outer.GraphAttr("then_branch")
	inner := middle.Nodes[1]
	require.ElementsMatch(t, []string{"y", "k", "w"}, names(middle, inner.Captures()))
	require.True(t, inner.HasSubgraphs())
	require.False(t, g.Nodes[0].HasSubgraphs())
	// A captured value names the value of the next graph outside.
	leaf := inner.GraphAttr("then_branch")
	id, ok := leaf.Lookup("y")
	require.True(t, ok)
	require.Equal(t, "y", middle.ValueName(leaf.Values[id].Outer))
	require.Equal(t, "y", g.ValueName(middle.Values[leaf.Values[id].Outer].Outer))
	id, _ = leaf.Lookup("k")
	require.Equal(t, graph.NoValue, middle.Values[leaf.Values[id].Outer].Outer, "k is made in the middle")
}

func TestBuildErrors(t *testing.T) {
	g := graph.New("g", nil)
	x := g.Value("x")
	require.NoError(t, g.AddInput(graph.Decl{Value: x}))
	require.EqualError(t, g.AddInput(graph.Decl{Value: x}),
		`graph "g": input "x" is listed twice; every input needs a name of its own`)
	_, err := g.AddInitializer(graph.Int64Tensor("", nil, 1))
	require.EqualError(t, err, `graph "g": an initializer has no name`)
	w, err := g.AddInitializer(graph.Int64Tensor("w", nil, 1))
	require.NoError(t, err)
	_, err = g.AddSparse(&graph.Sparse{Values: graph.Int64Tensor("w", nil, 1)})
	require.EqualError(t, err, `graph "g": initializer "w" is listed twice`)
	for _, v := range []graph.ValueID{x, w} {
		by := map[graph.ValueID]string{x: "the graph's inputs", w: "an initializer"}[v]
		bad := graph.New("g", nil)
		require.NoError(t, bad.AddInput(graph.Decl{Value: bad.Value("x")}))
		_, err := bad.AddInitializer(graph.Int64Tensor("w", nil, 1))
		require.NoError(t, err)
		err = bad.AddNode(&graph.Node{Op: "Neg", Outputs: []graph.ValueID{graph.NoValue, v}})
		require.EqualError(t, err, `node "Neg#0" (Neg): output 1: value "`+g.ValueName(v)+`" is already made by `+by+
			`; every value needs a name of its own`)
	}
	require.NoError(t, g.AddNode(&graph.Node{Name: "n", Op: "If",
		Attrs: []graph.Attr{{Name: "b", Value: g.Clone(nil)}}}))
	require.NoError(t, g.Seal())

	lost := graph.New("g", nil)
	sub := graph.New("s", lost)
	require.NoError(t, sub.AddOutput(graph.Decl{Value: sub.Value("nowhere")}))
	require.NoError(t, sub.Seal())
	require.NoError(t, lost.AddNode(&graph.Node{Name: "n", Op: "If", Attrs: []graph.Attr{{Name: "b", Value: sub}}}))
	require.EqualError(t, lost.Seal(),
		`node "n" (If): its subgraph reads value "nowhere", which has no producer in any enclosing graph`)
}

// TestClone checks that editing a copy leaves the original alone.
func TestClone(t *testing.T) {
	m, err := graph.Parse("g (x, c) => (y) { y = If <then_branch = t () => (r) { r = Neg (x) }> (c) }", "test")
	require.NoError(t, err)
	before := graph.Format(m, everything)
	c := m.Clone()
	require.NoError(t, graph.Verify(c))
	require.Equal(t, before, graph.Format(c, everything))
	sub := c.Graph.Nodes[0].GraphAttr("then_branch")
	require.Same(t, c.Graph, sub.Outer)
	sub.Nodes[0].Op = "Abs"
	c.Graph.Nodes[0].SetAttr("k", int64(1))
	c.Graph.Nodes[0].Inputs[0] = c.Graph.Value("x")
	c.Graph.Value("new")
	c.SetMeta("k", "v")
	require.Equal(t, before, graph.Format(m, everything))
	require.NoError(t, graph.Verify(m))
}

// TestSetNodes checks that values follow their producers.
func TestSetNodes(t *testing.T) {
	g := parseGraph(t, "g (x) => () { [a] a = Neg (x)\n [b] b, c = Op (x)\n [c] d = Neg (x) }")
	g.SetNodes([]*graph.Node{g.Nodes[2], g.Nodes[1]})
	for name, want := range map[string]graph.NodeID{"a": graph.NoNode, "b": 1, "c": 1, "d": 0, "x": graph.NoNode} {
		id, _ := g.Lookup(name)
		require.Equal(t, want, g.Values[id].Def, name)
	}
	id, _ := g.Lookup("c")
	require.EqualValues(t, 1, g.Values[id].DefSlot)
	require.NoError(t, graph.VerifyGraph(g))
}

// TestUses compares the index with a walk over all nodes.
func TestUses(t *testing.T) {
	g := parseGraph(t, `g (x, c) => (z) { y = Add (x, x)
  z = If <then_branch = t () => (r) { r = Add (y, x) }> (c, "", y)
  u = Op (y) }`)
	uses := graph.NewUses(g)
	of := func(name string) []graph.Use {
		id, ok := g.Lookup(name)
		require.True(t, ok)
		return uses.Of(id)
	}
	require.Equal(t, []graph.Use{{Node: 0, Slot: 0}, {Node: 0, Slot: 1}, {Node: 1, Slot: graph.Captured}}, of("x"))
	require.Equal(t, []graph.Use{{Node: 1, Slot: graph.Captured}, {Node: 1, Slot: 2}, {Node: 2, Slot: 0}}, of("y"))
	require.Equal(t, []graph.Use{{Node: 1, Slot: 0}}, of("c"))
	require.Empty(t, of("z"))
}

func TestAttributes(t *testing.T) {
	n := parseGraph(t, `g () => () { = Op <i = 1, f = 1.5, s = "s", is = [1], fs = [1.5], ss = ["s"], t = int64 {1}, g = g () => () {}> () }`).Nodes[0]
	require.EqualValues(t, 1, n.Int("i", 9))
	require.EqualValues(t, 9, n.Int("f", 9), "of another type")
	require.EqualValues(t, 9, n.Int("none", 9))
	require.EqualValues(t, 1.5, n.Float("f", 9))
	require.Equal(t, "s", n.Str("s", ""))
	require.Equal(t, []int64{1}, n.IntList("is", nil))
	require.Equal(t, []float32{1.5}, n.FloatList("fs", nil))
	require.Equal(t, []string{"s"}, n.StrList("ss", nil))
	require.NotNil(t, n.TensorAttr("t"))
	require.Nil(t, n.TensorAttr("i"))
	require.Equal(t, "g", n.GraphAttr("g").Name)
	n.SetAttr("i", int64(2))
	n.SetAttr("new", "x")
	require.EqualValues(t, 2, n.Int("i", 0))
	require.Equal(t, "new", n.Attrs[len(n.Attrs)-1].Name)
	require.Equal(t, graph.NoValue, n.Input(3))
	require.Equal(t, graph.NoValue, n.Output(0))
}

func TestDTypes(t *testing.T) {
	for d := graph.Float32; d.Valid(); d++ {
		back, ok := graph.ParseDType(d.String())
		require.True(t, ok)
		require.Equal(t, d, back)
		require.Equal(t, d == graph.String, d.Bits() == 0, d)
		require.False(t, d.IsFloat() && d.IsInteger(), d)
	}
	require.Equal(t, "dtype(-1)", graph.DType(-1).String())
	require.Equal(t, "undefined", graph.Undefined.String())
	require.False(t, graph.DType(99).Valid())
	require.Zero(t, graph.DType(99).Bits())
	_, ok := graph.ParseDType("undefined")
	require.False(t, ok)
}

// TestBytes checks sizes, those of elements of less than a byte included.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		typ  graph.Type
		want string
	}{
		{graph.Tensor(graph.Float32, graph.Ints()), "4"},
		{graph.Tensor(graph.Float16, graph.Ints(3, 0)), "0"},
		{graph.Tensor(graph.Int4, graph.Ints(3)), "2"},
		{graph.Tensor(graph.Int4, graph.Ints()), "1"},
		{graph.Tensor(graph.Uint2, graph.Ints(5)), "2"},
		{graph.Tensor(graph.Float4E2M1, graph.Ints(2, 4)), "4"},
		{graph.Tensor(graph.Complex128, graph.Ints(2)), "32"},
		{graph.Tensor(graph.Int4, graph.Dims(symbolic.Sym("n"))), "ceiling(n/2)"},
		{graph.Tensor(graph.Float32, graph.Dims(symbolic.Sym("n"), symbolic.Const(8))), "32*n"},
	} {
		require.Equal(t, c.want, c.typ.Bytes().String(), c.typ)
	}
	for _, typ := range []graph.Type{
		{}, {Form: graph.FormSequence}, graph.Tensor(graph.String, graph.Ints(2)),
		graph.Tensor(graph.Float32, graph.Shape{}),
		graph.Tensor(graph.Float32, graph.UnknownDims(1)),
		{Form: graph.FormSparse, DType: graph.Float32, Shape: graph.Ints(2)},
	} {
		require.True(t, typ.Bytes().IsUnknown(), typ)
	}
	require.Equal(t, -1, graph.Shape{}.Rank())
	require.True(t, graph.Ints(2).Known())
	require.False(t, graph.UnknownDims(2).Known())
}

func TestTensorContents(t *testing.T) {
	ints := parseGraph(t,
		`g () => () <int8[2] a = {-1, 127}, uint8[2] b = {255, 0}, int16[1] c = {-2}, uint16[1] d = {65535}, int32[1] e = {-3},
 uint32[1] f = {4294967295}, int64[1] g = {-4}, uint64[1] h = {5}, bool[2] i = {1, 0}, int64[0] j = {}> {}`)
	want := [][]int64{{-1, 127}, {255, 0}, {-2}, {65535}, {-3}, {4294967295}, {-4}, {5}, {1, 0}, {}}
	for i, id := range ints.Initializers {
		got, err := ints.Values[id].Data.Int64s()
		require.NoError(t, err)
		require.Equal(t, want[i], got, ints.ValueName(id))
	}
	floats, err := graph.Float32Tensor("f", []int64{2}, 1.5, float32(math.Inf(1))).Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{1.5, math.Inf(1)}, floats)

	for _, c := range []struct {
		t    *graph.TensorData
		want string
	}{
		{graph.Float32Tensor("x", nil, 1), `tensor "x": has type float, wanted integers`},
		{&graph.TensorData{Name: "x", DType: graph.Int4}, `tensor "x": has type int4, wanted integers`},
		{&graph.TensorData{Name: "x", DType: graph.Int64}, `tensor "x" (int64[]): no contents`},
		{&graph.TensorData{Name: "x", DType: graph.Int64, Dims: []int64{2}, Source: graph.Raw("12345678")},
			`tensor "x" (int64[2]): has 8 bytes, wanted 16`},
		{&graph.TensorData{Name: "x", DType: graph.Int64, Dims: []int64{-2}}, `tensor "x": dim -2 is negative`},
		{&graph.TensorData{Name: "x", DType: graph.Int64, Dims: []int64{1 << 62, 4}},
			`tensor "x": dims [4611686018427387904 4] hold more than 2^63 elements`},
		{&graph.TensorData{Name: "x", DType: graph.Int64, Dims: []int64{1 << 60}, Source: graph.Raw("")},
			`tensor "x": dims [1152921504606846976] of int64 hold more than 2^63 bits`},
	} {
		_, err := c.t.Int64s()
		require.EqualError(t, err, c.want)
	}
	_, err = graph.Int64Tensor("x", nil, 1).Float64s()
	require.EqualError(t, err, `tensor "x": has type int64, wanted float or double`)
}

func TestOpsetsAndMetadata(t *testing.T) {
	m := &graph.Model{Opsets: []graph.Opset{{Domain: "ai.onnx", Version: 17}, {Domain: "x", Version: 2}}}
	require.EqualValues(t, 17, m.OpsetVersion(""))
	require.EqualValues(t, 17, m.OpsetVersion("ai.onnx"))
	require.EqualValues(t, 2, m.OpsetVersion("x"))
	require.Zero(t, m.OpsetVersion("y"))
	m.Opsets = append(m.Opsets, graph.Opset{Domain: "ai.onnx", Version: 12}) // of several the last counts
	require.EqualValues(t, 12, m.OpsetVersion(""))
	m.SetMeta("a", "1")
	m.SetMeta("b", "2")
	m.SetMeta("a", "3")
	require.Equal(t, []graph.Property{{Key: "a", Value: "3"}, {Key: "b", Value: "2"}}, m.Metadata)
	v, ok := m.Meta("b")
	require.True(t, ok)
	require.Equal(t, "2", v)
	_, ok = m.Meta("c")
	require.False(t, ok)
}

// TestNodesAreSmall: a graph may have millions of nodes, and what a node has besides its name,
// operator, operands and attributes costs those nothing that do not have it.
func TestNodesAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(graph.Node{}), uintptr(144))
	n := &graph.Node{Op: "Relu"}
	require.Zero(t, testing.AllocsPerRun(10, func() { n.SetRare(n.Rare()) }))
	n.EditRare(func(r *graph.Rare) { r.Doc = "what it is" })
	require.Equal(t, "what it is", n.Rare().Doc)
	n.EditRare(func(r *graph.Rare) { r.Doc = "" })
	require.Equal(t, &graph.Node{Op: "Relu"}, n)
}
