package edit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/inference/edit"
)

// begin parses the text of a model and edits it.
func begin(t *testing.T, text string) *edit.Editor {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["": 17]> `+text, "test")
	require.NoError(t, err)
	e, err := edit.New(m)
	require.NoError(t, err)
	return e
}

// value is a value by its name.
func value(t *testing.T, e *edit.Editor, name string) graph.ValueID {
	v, ok := e.G.Lookup(name)
	require.True(t, ok, name)
	return v
}

// finished is the text of the graph after the edits.
func finished(t *testing.T, e *edit.Editor) string {
	_, err := e.Finish()
	require.NoError(t, err)
	require.NoError(t, graph.Verify(e.Model))
	require.NoError(t, graph.FileOrder(e.G).Check(e.G))
	return graph.Format(e.Model, graph.FormatOptions{})
}

// TestReplace: readers follow; an output of the graph keeps its name, where that can be; what
// subgraphs read stays.
func TestReplace(t *testing.T) {
	e := begin(t, `g (bool c, float[2] x) => (float[2] y, float[2] z) {
		a = Neg (x)
		b = Identity (a)
		d = Exp (b)
		y = Identity (d)
		k = Identity (x)
		z = If <then_branch = t () => (float[2] p) { p = Abs (k) }, else_branch = e () => (float[2] q) { q = Neg (k) }> (c)
	}`)
	a, b, d, y, k, x := value(t, e, "a"), value(t, e, "b"), value(t, e, "d"), value(t, e, "y"), value(t, e, "k"),
		value(t, e, "x")
	require.True(t, e.Held(y) && e.Held(k) && !e.Held(b))
	require.True(t, e.Replace(b, a))
	require.Equal(t, []*graph.Node{e.Maker(d)}, e.Readers(a)[1:], "the identity that made b is still there")
	require.True(t, e.Replace(y, d))
	require.False(t, e.Replace(k, x), "a subgraph reads it by its name")
	require.False(t, e.Replace(value(t, e, "z"), x), "an input cannot be called otherwise")
	require.Equal(t, `<ir_version: 8, opset_import: ["" : 17]>
g (bool c, float[2] x) => (float[2] y, float[2] z) {
  a = Neg (x)
  y = Exp (a)
  k = Identity (x)
  z = If <then_branch = t () => (float[2] p) {
    p = Abs (k)
  }, else_branch = e () => (float[2] q) {
    q = Neg (k)
  }> (c)
}
`, finished(t, e))
}

// TestAdd: new nodes stand where they were put, names are given once, and what comes too early for what
// it reads is put behind it.
func TestAdd(t *testing.T) {
	e := begin(t, `g (float[2] x) => (float[2] y, float[2] z) { [first] y = Neg (x)  [second] z = Abs (x) }`)
	first, second := e.G.Nodes[0], e.G.Nodes[1]
	y := first.Outputs[0]
	e.Remove(first)
	v := e.NewValue("x", e.G.Values[y].Type)
	require.Equal(t, "x_1", e.G.ValueName(v), "x is taken")
	x := value(t, e, "x")
	require.NoError(t, e.Add(&graph.Node{Name: "second", Op: "Exp", Inputs: []graph.ValueID{x},
		Outputs: []graph.ValueID{v}}, second))
	require.NoError(t, e.Add(&graph.Node{Name: "first", Op: "Tanh", Inputs: []graph.ValueID{v},
		Outputs: []graph.ValueID{y}}, first))
	require.True(t, e.Only(v, e.Maker(y)) && !e.Only(x, second))
	require.Equal(t, `<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y, float[2] z) {
  [second_1] x_1 = Exp (x)
  [first] y = Tanh (x_1)
  [second] z = Abs (x)
}
`, finished(t, e))
}

// TestSweep: nodes and constants that nobody needs go; what draws stays, and what memopt does not know.
func TestSweep(t *testing.T) {
	e := begin(t, `g (float[2] x) => (float[2] y) <float[2] u = {1, 2}, float[2] w = {1, 2}, float[2] d> {
		d = Mul (x, u)
		drawn = RandomNormalLike (x)
		foreign = Foreign (w)
		y = Neg (x)
	}`)
	changed, err := e.Finish()
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, `<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y)
<float[2] w = {1, 2}>
{
  drawn = RandomNormalLike (x)
  foreign = Foreign (w)
  y = Neg (x)
}
`, graph.Format(e.Model, graph.FormatOptions{}))
	again, err := edit.New(e.Model)
	require.NoError(t, err)
	changed, err = again.Finish()
	require.NoError(t, err)
	require.False(t, changed)
}

// TestFreeze: initializers that are inputs become constants where the format wants them to be inputs,
// or the caller wants it.
func TestFreeze(t *testing.T) {
	const text = `g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }`
	for _, c := range []struct {
		ir     int64
		all    bool
		frozen int
	}{{3, false, 1}, {4, false, 0}, {8, true, 1}} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["": 9]> `+text, "test")
		require.NoError(t, err)
		m.IRVersion = c.ir
		require.Equal(t, c.frozen, edit.Freeze(m, c.all))
		require.Len(t, m.Graph.Inputs, 2-c.frozen)
		require.GreaterOrEqual(t, m.IRVersion, int64(4))
		require.NoError(t, graph.Verify(m))
	}
}

// TestSize: the size is that of the file.
func TestSize(t *testing.T) {
	e := begin(t, `g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
		y = If <then_branch = t () => (float[2] p) <float[2] v = {3, 4}> { p = Add (w, v) },
			else_branch = e () => (float[2] q) { q = Neg (x) }> (c) }`)
	s, err := edit.SizeOf(e.Model)
	require.NoError(t, err)
	raw, err := onnx.Encode(e.Model)
	require.NoError(t, err)
	require.Equal(t, edit.Size{Nodes: 3, Initializers: 2, Bytes: int64(len(raw))}, s)
}
