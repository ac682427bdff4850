package chunk_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner/chunk"
)

// attention is the forward half of an attention over 500 places by two heads of 8.
const attention = `m (float[2, 2, 500, 8] q, float[2, 2, 500, 8] k, float[2, 2, 500, 8] v, float[8] wq, float[8] wk,
	float[8] wv) => (float loss)
	{ a = Mul(q, wq)  b = Mul(k, wk)  c = Mul(v, wv)  t = Transpose<perm = [0, 1, 3, 2]>(b)
	  scores = MatMul(a, t)  p = Softmax<axis = -1>(scores)  o = MatMul(p, c)  e = Tanh(o)  loss = ReduceMean<keepdims = 0>(e) }`

// TestQueriesInParts: attention by blocks of queries, in both halves, has the bits of the whole: the
// gradients of keys and values, to which every block adds, go on where the block before has ended.
func TestQueriesInParts(t *testing.T) {
	b := newBaseline(t, trained(t, attention, nil, "wq", "wk", "wv"))
	cut, err := chunk.Around(b.bound, b.order, "scores", "2", 3, 0.5, chunk.Exact)
	require.NoError(t, err)
	require.Equal(t, 3, cut.Parts)
	a := b.hold(t, *cut)
	require.Equal(t, 2*2, kindsOf(a.Graph)[op.MatMulAdd], "of two gradients, all parts but the first")
	require.Len(t, a.Functions, 1)
}

// TestProposedQueries: however little is allowed, what is proposed cuts queries, which leaves little of
// every step, and not the rows of a softmax alone, whose scores would be whole beside it.
func TestProposedQueries(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 1, "seq": 4096}})
	require.NoError(t, err)
	b := newBaseline(t, m)
	for budget := b.plan.Base.Peak.Bytes; budget > b.plan.Base.Peak.Bytes/64; budget /= 2 {
		lists, err := chunk.Propose(t.Context(), b.bound, b.order, nil, budget, chunk.Exact)
		require.NoError(t, err)
		for _, cuts := range lists {
			require.Contains(t, strings.Join(cuts[0].Nodes, " "), "attn/MatMul", "%v", cuts)
		}
	}
}

// TestFusedProductsInParts: ONNX Runtime's own products of stacks go on, too, with their factors and
// transpositions.
func TestFusedProductsInParts(t *testing.T) {
	read, err := graph.Parse(`<ir_version: 7, opset_import: ["" : 17, "com.microsoft" : 1]>
m (float[2, 3, 450, 8] x, float[2, 3, 450, 6] w, float[2, 3, 6, 450] u) => (float loss, float[2, 3, 8, 6] y, float[2, 3, 8, 6] z)
{ h = Exp(x)  loss = ReduceMean<keepdims = 0>(h)  a = Tanh(h)  y = com.microsoft.FusedMatMul<transA = 1, alpha = 0.3>(a, w)
  z = com.microsoft.FusedMatMul<transA = 1, transB = 1>(a, u) }`, "m")
	require.NoError(t, err)
	m, err := memopt.New(read, memopt.Options{})
	require.NoError(t, err)
	b := newBaseline(t, m)
	cut, err := chunk.Around(b.bound, b.order, "a", "2", 3, 0.5, chunk.Exact)
	require.NoError(t, err)
	a := b.hold(t, *cut)
	require.Equal(t, 2*2, kindsOf(a.Graph)[op.FusedMatMulAdd])
	require.EqualValues(t, 8, a.IRVersion)
}

// TestNarrowSumsInParts: sums of numbers that are rounded to 16 bits are no sums of the parts' bits.
func TestNarrowSumsInParts(t *testing.T) {
	b := newBaseline(t, trained(t, `m (float16[500, 4] x, float16[4, 6] w) => (float16 loss)
		{ a = MatMul(x, w)  b = Tanh(a)  loss = ReduceMean<keepdims = 0>(b) }`, nil, "w"))
	cut, err := chunk.Around(b.bound, b.order, "a", "0", 2, 0.5, chunk.Fast)
	require.NoError(t, err)
	require.False(t, cut.Exact)
	b.holdWithin(t, verify.Tolerance{Abs: 2e-2, Rel: 2e-2}, *cut)
	cut, err = chunk.Around(b.bound, b.order, "a", "0", 2, 0.5, chunk.Exact)
	if err == nil {
		b.hold(t, *cut)
	}
}

// TestNoPlaceForDefinitions: a file of a format that is too old for functions goes without.
func TestNoPlaceForDefinitions(t *testing.T) {
	m := trained(t, attention, nil, "wq", "wk", "wv")
	m.IRVersion = 3
	b := newBaseline(t, m)
	cut, err := chunk.Around(b.bound, b.order, "scores", "2", 3, 0.5, chunk.Exact)
	require.NoError(t, err)
	parts := b.hold(t, *cut)
	require.Zero(t, kindsOf(parts.Graph)[op.MatMulAdd])
	require.Empty(t, parts.Functions)
}

func kindsOf(g *graph.Graph) map[graph.Kind]int {
	n := map[graph.Kind]int{}
	for _, node := range g.Nodes {
		n[node.Kind]++
	}
	return n
}
