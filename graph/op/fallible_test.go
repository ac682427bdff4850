package op_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Which nodes data can make fail, in graphs that are written by hand: those called once do when they
// look at elements for the first time, those called ever may each time.
func TestFailuresByHand(t *testing.T) {
	for _, c := range []struct{ name, nodes, once, ever string }{
		{"indices, then again as they are, in another form and in a wider type, then as parts",
			`[a] y1 = Gather(x, i)  [b] y2 = Gather(x, i)  u = Unsqueeze(i, one)  [c] y3 = ScatterND(x, u, rows)
			j = Cast<to = 7>(k)  [d] y4 = Gather(x, k)  [e] y5 = Gather(x, j)
			p = Slice(i, zeros, one)  [f] y6 = Gather(x, p)  e = Expand(p, four)  [g] y7 = Gather(x, e)`,
			"a d", ""},
		{"a narrower axis is another matter, and then a wider one is not",
			`[a] y1 = Gather<axis = 1>(x, i)  [b] y2 = Gather<axis = 0>(x, i)  [c] y3 = Gather<axis = 1>(x, i)
			[d] y4 = Gather<axis = 0>(x, i)`, "a b", ""},
		{"what is computed from indices is not known",
			`[a] y = Gather(x, i)  ii = Add(i, i)  [b] z = Gather(x, ii)`, "a b", ""},
		{"labels, where those to be ignored are replaced",
			`[a] y = SoftmaxCrossEntropyLoss<ignore_index = -8>(s, l)  e = Equal(l, minus8)  w = Where(e, zero, l)
			u = Unsqueeze(w, one)  [b] z = GatherElements<axis = 1>(s, u)
			v = Unsqueeze(l, one)  [c] q = GatherElements<axis = 1>(s, v)`, "a c", ""},
		{"labels of which others are replaced than are ignored",
			`[a] y = SoftmaxCrossEntropyLoss<ignore_index = -8>(s, l)  e = Equal(l, zero)  w = Where(e, zero, l)
			u = Unsqueeze(w, one)  [b] z = GatherElements<axis = 1>(s, u)`, "a b", ""},
		{"labels of which others decide what is replaced",
			`[a] y = SoftmaxCrossEntropyLoss<ignore_index = -8>(s, l)  e = Equal(i, minus8)  w = Where(e, zero, l)
			u = Unsqueeze(w, one)  [b] z = GatherElements<axis = 1>(s, u)`, "a b", ""},
		{"one of two: both bounds count",
			`[a] y = Gather<axis = 1>(x, i)  e = Equal(l, zero)  w = Where(e, zero, i)
			[b] z = NegativeLogLikelihoodLoss(s, w)`, "a b", ""},
		{"places that operators find",
			`a1 = ArgMax<axis = 1, keepdims = 0>(x)  [a] y = Gather<axis = 1>(x, a1)  [b] z = Gather<axis = 0>(x, a1)
			t, t1 = TopK<axis = 0>(x, one)  t2 = Reshape(t1, six)  [c] q = Gather(x, t2)`, "b", ""},
		{"contents of the file and shapes",
			`[a] y = Gather(x, zeros)  sh = Shape(x)  [b] z = Reshape(x, sh)  n = Neg(sh)  m = Neg(n)
			[c] q = Reshape(x, m)  [d] r = Gather(x, seven)  [e] w = Reshape(x, two)`, "d", "e"},
		{"division of integers, but not of floats",
			`[a] y = Div(i, i)  [b] z = Div(x, x)  [c] q = Div(i, one)  [d] r = Div(l, i)  [e] v = Mod(l, i)`, "a e", ""},
		{"sizes that depend on data",
			`[a] y = NonZero(x)  [b] z = Neg(x)  sh = Shape(y)  n = Gather(sh, one)  [c] q = Div(i, n)`, "c", "a"},
		{"sizes that nobody knows before the run, but that shapes decide",
			`[a] h = Shape(x)  [b] e = Equal(h, six)  [c] n = NonZero(e)  [d] p = Squeeze(n, zeros)
			[e] y = ReduceSum(x, p)  [f] z = Add(y, x)  [g] q = Shape(z)  [h] r = Reshape(z, q)`, "", ""},
		{"sizes that follow from sizes of data",
			`[a] n = NonZero(x)  [b] f = Cast<to = 1>(n)  [c] y = Neg(f)  [d] h = Shape(y)
			[e] q = ConstantOfShape(h)`, "", "a b c e"},
		{"sizes that floats decide",
			`[a] m = ReduceMax<keepdims = 0>(x)  [b] y = Range(m, m, m)  [c] z = Slice(x, zeros, two)`, "", "b c"},
		{"subgraphs: what is in them",
			`[a] y = If(flag) <then_branch = t () => (float[5, 6] o) { o = Neg(x) }, else_branch = f () => (float[5, 6] o) {
				o = Abs(x) }>
			[b] z = If(flag) <then_branch = t () => (float[4, 6] o) { o = Gather(x, i) }, else_branch = f () =>
				(float[4, 6] o) { o = Neg(rows) }>`, "", "b"},
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[R, 6] x, float[4, 7] s, float[4, 6] rows,
			int64[4] i, int32[4] k, int64[4] l, int64[2] two, bool flag) => (float[R, 6] last)
			< int64 zero = {0}, int64 minus8 = {-8}, int64[1] zeros = {0}, int64[1] one = {1}, int64[1] four = {4},
			int64[1] six = {6}, int64[1] seven = {7} > { `+c.nodes+` [last] last = Neg(x) }`, "g")
		require.NoError(t, err, c.name)
		r, err := op.Infer(m)
		require.NoError(t, err, c.name)
		got := map[op.Failure][]string{}
		for id, f := range op.Failures(m.Graph, r, graph.FileOrder(m.Graph), symbolic.Env{"R": 5}) {
			got[f] = append(got[f], m.Graph.NodeLabel(graph.NodeID(id)))
		}
		require.ElementsMatch(t, strings.Fields(c.once), got[op.FailsOnce], c.name)
		require.ElementsMatch(t, strings.Fields(c.ever), got[op.FailsAnytime], c.name)
		for _, f := range op.Failures(m.Graph, r, graph.FileOrder(m.Graph), nil)[len(m.Graph.Nodes)-1:] {
			require.Equal(t, op.FailsAnytime, f, "%s: without the rows, whose number is not known", c.name)
		}
	}
}
