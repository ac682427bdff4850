package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// TestLabels: symbols that shape inference of other tools has left behind give way to what they
// stand for.
func TestLabels(t *testing.T) {
	const head = `<ir_version: 8, opset_import: ["" : 17]> `
	for name, c := range map[string]struct {
		model string
		want  map[string]string // by value, in whatever graph it is
	}{
		"an output and a value between": {
			`g (float[n] x) => (float[unk__2] z) <float[unk__1] y> { y = Exp(x)  z = Neg(y) }`,
			map[string]string{"y": "float[n]", "z": "float[n]"}},
		"a number": {
			`g (float[4, 6] x) => (float[unk__2] z) { s = Shape(x)  z = Cast<to = 1>(s) }`,
			map[string]string{"z": "float[2]"}},
		"one value with the label is inferred, the other is not": {
			`g (float[n] x) => (float[unk__1] y, int64[1, unk__1] where) { where = NonZero(x)  y = Exp(x) }`,
			map[string]string{"where": "int64[1, n]", "y": "float[n]"}},
		"what follows from it": {
			`g (float[n] x) => (float[unk__1] y, float[1, unk__2] twice) <int64[1, unk__1] where> {
				where = NonZero(x)  f = Cast<to = 1>(where)  twice = Concat<axis = 1>(f, f)  y = Exp(x) }`,
			map[string]string{"where": "int64[1, n]", "f": "float[1, n]", "twice": "float[1, 2*n]"}},
		"one label tells another": {
			`g (float[n] x) => (float[unk__1] y, int64[1, unk__2] where, int64[1, unk__2] same) <int64[1, unk__1] first> {
				first = NonZero(x)  same = Neg(first)  where = NonZero(x)  y = Exp(x) }`,
			map[string]string{"first": "int64[1, n]", "same": "int64[1, n]", "where": "int64[1, n]"}},
		"a declared symbol of an input says what an inferred label is": {
			`g (float[n] x) => (int64[1, n] out) <int64[1, unk__1] where> { where = NonZero(x)  out = Neg(where) }`,
			map[string]string{"where": "int64[1, n]", "out": "int64[1, n]"}},
		"contradicting labels say nothing": {
			`g (float[n] x, float[m] u) => (float[unk__1] y, float[unk__1] v, int64[1, unk__1] where) { y = Exp(x)  v = Exp(u)  where = NonZero(x) }`,
			map[string]string{"where": "int64[1, unk__1]", "y": "float[n]", "v": "float[m]"}},
		"a label that only names itself": {
			`g (float[n] x) => (int64[1, unk__1] where) { where = NonZero(x) }`,
			map[string]string{"where": "int64[1, unk__1]"}},
		"inside branches, and out of them": {
			`g (float[n] x, bool c) => (float[unk__9] z) {
				z = If(c) <then_branch = a () => (float[unk__3] p) <float[unk__4] q> { q = Exp(x)  p = Neg(q) },
				           else_branch = b () => (float[unk__5] r) { r = Tanh(x) }> }`,
			map[string]string{"z": "float[n]", "p": "float[n]", "q": "float[n]", "r": "float[n]"}},
		"a branch says it of the graph around it": {
			`g (float[n] x, bool c) => (int64[1, unk__3] where, float z) {
				where = NonZero(x)
				z = If(c) <then_branch = a () => (float p) <float[unk__3] q> { q = Exp(x)  p = ReduceMax<keepdims = 0>(q) },
				           else_branch = b () => (float r) { r = ReduceMin<keepdims = 0>(x) }> }`,
			map[string]string{"where": "int64[1, n]"}},
		"inside a loop": {
			`g (float[n] x) => (float[unk__1] z) <int64 three = {3}, bool yes = {1}> {
				z = Loop(three, yes, x) <body = l (int64 i, bool more, float[unk__7] s) => (bool again, float[unk__8] u) <float[unk__6] p> {
					again = Identity(more)  p = Exp(s)  u = Tanh(p) }> }`,
			map[string]string{"z": "float[n]", "u": "float[n]", "p": "float[n]"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, infer := range []func(*graph.Model) (*op.Result, error){op.Infer, op.InferAsIs} {
				m, err := graph.Parse(head+c.model, "labels")
				require.NoError(t, err)
				r, err := infer(m)
				require.NoError(t, err)
				require.Empty(t, r.Conflicts)
				found := 0
				r.Walk(m.Graph, func(g *graph.Graph, _ *op.Result) {
					for value, want := range c.want {
						if id, ok := g.Lookup(value); ok && g.Values[id].Def != graph.NoNode {
							require.Equal(t, want, g.Values[id].Type.String(), value)
							found++
						}
					}
				})
				require.Equal(t, len(c.want), found)
			}
		})
	}
}

// TestLabelsLeft: a declaration of a value that no node makes, as optimizers leave behind, has no size and so no
// labels that ask for a number.
func TestLabelsLeft(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] z) <float[unk__1] left> {
		z = Neg(x) }`, "labels")
	require.NoError(t, err)
	_, err = op.InferAsIs(m)
	require.NoError(t, err)
	id, ok := m.Graph.Lookup("left")
	require.True(t, ok)
	require.Equal(t, graph.Type{}, m.Graph.Values[id].Type)
	require.Len(t, m.Graph.ValueInfo, 1)
	require.Equal(t, "float[unk__1]", m.Graph.ValueInfo[0].Type.String())
}

// TestLyingLabels: where believing a label makes a node invalid, the file is read as if it did not
// say it.
func TestLyingLabels(t *testing.T) {
	m, err := graph.Parse(
		`<ir_version: 8, opset_import: ["" : 17]> g (float[4] x, float[6] u, bool[6] keep) => (float[unk__1] y, float z) <float[unk__1] part> {
		y = Exp(x)  part = Compress(u, keep)  a = Add(part, u)  z = ReduceMax<keepdims = 0>(a) }`, "labels")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	id, _ := m.Graph.Lookup("part")
	require.Equal(t, "float[unk__1]", m.Graph.Values[id].Type.String())
}
