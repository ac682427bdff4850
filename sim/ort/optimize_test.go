package ort

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// optimizedSteps returns the kinds and operands of the steps left of a graph, in the order of
// execution.
func optimizedSteps(t *testing.T, text string) string {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g `+text, "case")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	sizes, err := live.EvalSizes(m.Graph, symbolic.Env{"N": 4})
	require.NoError(t, err)
	p, order := newOptimizer(NewFacts(m, symbolic.Env{"N": 4})).rewrite(
		live.NewProgram(m.Graph, graph.FileOrder(m.Graph), sizes))
	var out []string
	for _, i := range order {
		s := &p.Steps[i]
		if op.Of(s.Kind).Has(op.ConstantRole) {
			continue
		}
		var in []string
		for _, v := range s.In {
			in = append(in, m.Graph.ValueName(v))
		}
		out = append(out, m.Graph.ValueName(s.Out[0])+" = "+op.Of(s.Kind).Name+"("+strings.Join(in, ", ")+")")
	}
	return strings.Join(out, "; ")
}

// TestORTOptimizations has graphs and what ONNX Runtime 1.30 turns them into: the nodes as
// SessionOptions.optimized_model_filepath shows them, the order as a profile does.
func TestORTOptimizations(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"equal nodes are merged", "(float[4] x) => (float[4] y) { a = Exp(x)  b = Exp(x)  y = Add(a, b) }",
			"b = Exp(x); y = Add(b, b)"},
		{"so are readers of equal constants",
			"(float[1, 4] x) => (float[4] y) <int64[1] i = {0}, int64[1] j = {0}> { a = Squeeze(x, i)  b = " +
				"Squeeze(x, j)  y = Add(a, b) }",
			"b = Squeeze(x, i); y = Add(b, b)"},
		{"results are not merged", "(float[4] x) => (float[4] y, float[4] z) { y = Exp(x)  z = Exp(x) }",
			"z = Exp(x); y = Exp(x)"},
		{"a copy that is returned goes", "(float[4] x) => (float[4] y) { a = Exp(x)  y = Identity(a) }",
			"a = Exp(x)"},
		{"unless something else reads its input",
			"(float[4] x) => (float[4] y, float[4] z) { a = Exp(x)  y = Identity(a)  z = Neg(a) }",
			"a = Exp(x); z = Neg(a); y = Identity(a)"},
		{"a dropout of ratio 0 copies",
			"(float[4] x, bool t) => (float[4] y) <float r = {0.0}> { a = Exp(x)  b = Dropout(a, r, t)  y = Neg(b) }",
			"a = Exp(x); y = Neg(a)"},
		{"so does any other whose mask nobody reads",
			"(float[4] x, bool t) => (float[4] y) <float r = {0.5}> { a = Exp(x)  b, k = Dropout(a, r, t)  " +
				"y = Neg(b) }",
			"a = Exp(x); y = Neg(a)"},
		{"of the others, none does",
			"(float[4] x, bool t) => (float[4] y) <float r = {0.0}> { a = Exp(x)  b, k = Dropout(a, r, t)  y = " +
				"Where(k, a, b) }",
			"a = Exp(x); b = Dropout(a, r, t); y = Where(k, a, b)"},
		{"nor one that is returned",
			"(float[4] x, bool t) => (float[4] y) <float r = {0.5}> { a = Exp(x)  y = Dropout(a, r, t) }",
			"a = Exp(x); y = Dropout(a, r, t)"},
		{"fixed shapes are folded",
			"(float[4, 2] x, float[8] z) => (float[4, 2] y) { s = Shape(x)  y = Reshape(z, s) }",
			"y = Reshape(z, s)"},
		{"views of known shapes become part of a Reshape",
			"(float[2, 3, 4] x) => (float[6, 4] y) <int64[2] s = {6, 4}, int64[1] i = {1}> { a = Exp(x)  " +
				"b = Reshape(a, s)  c = Unsqueeze(b, i)  d = Squeeze(c, i)  y = Neg(d) }",
			"a = Exp(x); d = Reshape(a); y = Neg(d)"},
		{"and drop the shape that a node computes for it",
			"(float[2, 3, 4] x, int64[2] z) => (float[24] y) <int64[1] s = {24}> { a = Abs(z)  b = Reshape(x, a)  " +
				"y = Reshape(b, s) }",
			"y = Reshape(x)"},
		{"up to one that is read elsewhere",
			"(float[2, 3, 4] x) => (float[4, 6] y, float[6, 4] z) <int64[2] s = {6, 4}, int64[2] t = {4, 6}> { " +
				"a = Exp(x)  b = Reshape(a, s)  c = Reshape(b, t)  y = Neg(c)  z = Neg(b) }",
			"a = Exp(x); b = Reshape(a, s); z = Neg(b); c = Reshape(b, t); y = Neg(c)"},
		{"or one whose axis a node computes, as an anchor's",
			"(float[2, 3, 4] x, float[2] z) => (float[24] y) <int64[3] s = {2, 4, 3}, int64[1] i = {0}, " +
				"int64[1] f = {24}> { a = Reshape(x, s)  " +
				"n = Size(z)  b = Mul(n, i)  c = Unsqueeze(a, b)  d = Squeeze(c, i)  y = Reshape(d, f) }",
			"n = Size(z); b = Mul(n, i); a = Reshape(x, s); c = Unsqueeze(a, b); d = Squeeze(c, i); y = Reshape(d, f)"},
		{"no chain begins with a Squeeze or with allowzero",
			"(float[1, 6, 4] x) => (float[24] y, float[24] z) <int64[1] i = {0}, int64[2] s = {6, 4}, " +
				"int64[1] f = {24}> { a = Squeeze(x, i)  y = Reshape(a, f)  " +
				"b = Reshape<allowzero = 1>(x, s)  z = Reshape(b, f) }",
			"b = Reshape(x, s); z = Reshape(b, f); a = Squeeze(x, i); y = Reshape(a, f)"},
		{"a product reads through a transpose",
			"(float[N, 4] x, float[8, 4] w) => (float[N, 8] y) { t = Transpose(w)  a = MatMul(x, t)  y = Exp(a) }",
			"a = MatMul(x, w); y = Exp(a)"},
		{"which stays for its other readers",
			"(float[N, 4] x, float[8, 4] w) => (float[N, 8] y, float[4, 8] z) { t = Transpose(w)  y = MatMul(x, t)  " +
				"z = Exp(t) }",
			"y = MatMul(x, w); t = Transpose(w); z = Exp(t)"},
		{"factors belong to products",
			"(float[N, 4] x, float[4, 8] w) => (float[N, 8] y) <float c = {0.5}> { s = Mul(x, c)  a = MatMul(s, w)  " +
				"b = Div(a, c)  y = Exp(b) }",
			"b = MatMul(x, w); y = Exp(b)"},
		{"an activation belongs to its Gemm",
			"(float[N, 4] x, float[4, 8] w) => (float[N, 8] y) { a = Gemm(x, w)  b = Relu(a)  y = Exp(b) }",
			"b = Gemm(x, w); y = Exp(b)"},
		{"a row belongs to a product of fixed shapes",
			"(float[3, 4] x, float[8, 4] w, float[8] b) => (float[3, 8] y) { t = Transpose(w)  a = MatMul(x, t)  c " +
				"= Add(a, b)  y = Exp(c) }",
			"c = Gemm(x, w, b); y = Exp(c)"},
		{"and to one of matrices",
			"(float[N, 4] x, float[4, 8] w, float[8] b) => (float[N, 8] y) { a = MatMul(x, w)  c = Add(a, b)  y = " +
				"Exp(c) }",
			"c = Gemm(x, w, b); y = Exp(c)"},
		{"but not where more sizes are open",
			"(float[N, 3, 4] x, float[4, 8] w, float[8] b) => (float[N, 3, 8] y) { a = MatMul(x, w)  c = Add(a, b)  " +
				"y = Exp(c) }",
			"a = MatMul(x, w); c = Add(a, b); y = Exp(c)"},
		// A node made by a fusion is numbered after all others, so it is walked first.
		{"fusions change the order",
			"(float[N, 4] x, float[4, 4] w) => (float[N, 4] y) { g = Gemm(x, w)  r = Relu(g)  e = Exp(x)  y = " +
				"Add(e, r) }",
			"r = Gemm(x, w); e = Exp(x); y = Add(e, r)"},
	} {
		require.Equal(t, c.want, optimizedSteps(t, c.text), c.name)
	}
}

// TestLostShapes lists the values whose shapes ONNX Runtime does not know.
func TestLostShapes(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x, float[M, 4] z) => (float[N, 4] y)
	<int64[1] zero = {0}, int64[1] one = {1}, int64[1] far = {99}, int64[2] flat = {-1, 4}> {
		head = Slice(x, zero, one, zero)  tail = Slice(x, one, far, zero)  joined = Concat<axis = 0>(head, tail)  beside = Concat<axis = 1>(x, x)
		lost = Exp(joined)  s = Shape(x)  told = Reshape(x, s)  kept = Reshape(x, flat)  spread = Expand(lost, s)  y = Add(spread, kept) }`, "case")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	var names []string
	for v, lost := range lostShapes(m.Graph) {
		if lost {
			names = append(names, m.Graph.ValueName(graph.ValueID(v)))
		}
	}
	require.Equal(t, []string{"joined", "lost", "told"}, names)
}
