package chunk_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/autograd"
	"memopt/graph"
	"memopt/planner/chunk"
	"memopt/symbolic"
)

// TestHostileCuts: cuts that do not fit a graph, as plan files may have them, end in errors that say
// which region it is, what was wanted and what there is.
func TestHostileCuts(t *testing.T) {
	m := trained(t, `m (float[7, 4] x, float[4, 6] w) => (float loss) <int64[1] axes = {0}>
{ a = MatMul(x, w)  b = Tanh(a)  c = Exp(b)
  d = ReduceSum<keepdims = 0>(c, axes)  e = Sigmoid(d)  loss = ReduceMean<keepdims = 0>(e) }`, nil, "w")
	b := newBaseline(t, m)
	good, err := chunk.Around(b.bound, b.order, "b", "0", 3, 0, chunk.Fast)
	require.NoError(t, err)
	inexact, err := chunk.Around(b.bound, b.order, "c", "0", 3, 0, chunk.Fast)
	require.NoError(t, err)
	require.False(t, inexact.Exact)
	changed := func(edit func(*chunk.Cut)) []chunk.Cut {
		c := *good
		c.Nodes = slices.Clone(c.Nodes)
		edit(&c)
		return []chunk.Cut{c}
	}
	for _, c := range []struct {
		cuts []chunk.Cut
		want string
	}{
		{changed(func(c *chunk.Cut) { c.Region = "no" }), `region "no": the graph has no such value`},
		{changed(func(c *chunk.Cut) { c.Region = "x" }), `no node makes it`},
		{changed(func(c *chunk.Cut) { c.Dim = "2" }), `value "b" has no dim 2`},
		{changed(func(c *chunk.Cut) { c.Dim = "0-2" }), `value "b" has no dim 0-2`},
		{changed(func(c *chunk.Cut) { c.Dim = "-1" }), `wanted a number such as 2`},
		{changed(func(c *chunk.Cut) { c.Dim = "99999999999999999999" }), `wanted a number such as 2`},
		{changed(func(c *chunk.Cut) { c.Dim = "" }), `wanted a number such as 2`},
		{changed(func(c *chunk.Cut) { c.Parts = 1 }), `1 parts of 7 places along dim 0: wanted 2 to 7`},
		{changed(func(c *chunk.Cut) { c.Parts = 0 }), `0 parts of 7`},
		{changed(func(c *chunk.Cut) { c.Parts = -5 }), `-5 parts of 7`},
		{changed(func(c *chunk.Cut) { c.Parts = 8 }), `8 parts of 7 places along dim 0: wanted 2 to 7 parts`},
		{changed(func(c *chunk.Cut) { c.Parts = math.MaxInt }), `: wanted 2 to 7 parts`},
		{changed(func(c *chunk.Cut) { c.Parts = math.MinInt }), `: wanted 2 to 7 parts`},
		{changed(func(c *chunk.Cut) { c.Nodes = nil }), `is not among the region's`},
		{changed(func(c *chunk.Cut) { c.Nodes[0] = "no" }), `the graph has no node "no"`},
		{changed(func(c *chunk.Cut) { c.Nodes = append(c.Nodes, c.Nodes[0]) }), `has node "MatMul#0" twice`},
		{changed(func(c *chunk.Cut) { c.Exact = true }), `its parts give other bits, and it says exact`},
		{[]chunk.Cut{*good, *good}, `which region "b" has, too; wanted each node in one`},
		{[]chunk.Cut{*good, *inexact}, `which region "b" has, too; wanted each node in one`},
	} {
		_, err := chunk.Apply(t.Context(), m.Model, b.order, b.plan.Analysis.Boundary, nil, c.cuts)
		require.ErrorIs(t, err, chunk.ErrCut, c.want)
		require.ErrorContains(t, err, c.want)
	}
	b.hold(t, *good)

	// Parts are as even as can be, so that there may be fewer; what was applied says how many.
	five := changed(func(c *chunk.Cut) { c.Parts = 5 })
	a, err := chunk.Apply(t.Context(), m.Model, b.order, b.plan.Analysis.Boundary, nil, five)
	require.NoError(t, err)
	require.Equal(t, 4, a.Cuts[0].Parts)
	require.Equal(t, 5, five[0].Parts)

	for _, parts := range []int{7, 100, math.MaxInt} {
		c, err := chunk.Around(b.bound, b.order, "b", "0", parts, 0, chunk.Fast)
		require.NoError(t, err)
		require.Equal(t, 7, c.Parts)
		b.hold(t, *c)
	}
	for _, parts := range []int{1, 0, math.MinInt} {
		_, err := chunk.Around(b.bound, b.order, "b", "0", parts, 0, chunk.Fast)
		require.ErrorContains(t, err, "parts: wanted 2 or more")
	}
}

// trained is a forward model, in ONNX's textual syntax, with the gradients of parameters.
func trained(t rapid.TB, text string, dims map[string]int64, params ...string) *memopt.Model {
	t.Helper()
	read, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> `+text, "m")
	require.NoError(t, err)
	forward, err := memopt.New(read, memopt.Options{Dims: dims})
	require.NoError(t, err)
	m, _, err := forward.Differentiate(autograd.Options{Params: params}, nil)
	require.NoError(t, err)
	return m
}

// TestTooManyParts: parts that would make more nodes than memory holds are refused before they are made.
func TestTooManyParts(t *testing.T) {
	m := trained(t, `m (float[3000000] x, float[1] w) => (float loss)
{ a = Mul(x, w)  b = Tanh(a)  c = Exp(b)  loss = ReduceMean<keepdims = 0>(c) }`, nil, "w")
	p, err := m.Plan(t.Context(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	cut, err := chunk.Around(m.Model, p.Analysis.Order, "b", "0", 1_000_000, 0, chunk.Fast)
	require.NoError(t, err)
	require.Equal(t, 1_000_000, cut.Parts)
	_, err = chunk.Apply(t.Context(), m.Model, p.Analysis.Order, p.Analysis.Boundary, nil, []chunk.Cut{*cut})
	require.ErrorIs(t, err, chunk.ErrCut)
	require.ErrorContains(t, err, "in 1000000 parts: wanted at most 1048576 nodes in parts")
}

// TestUnbound: symbols without a size are named.
func TestUnbound(t *testing.T) {
	m := trained(t, `m (float[rows, 4] x, float[4] w) => (float loss)
{ a = Mul(x, w)  b = Tanh(a)  loss = ReduceMean<keepdims = 0>(b) }`, nil, "w")
	p, err := m.Plan(t.Context(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	_, err = chunk.Apply(t.Context(), m.Model, p.Analysis.Order, p.Analysis.Boundary, nil,
		[]chunk.Cut{{Region: "b", Dim: "0", Parts: 2}})
	var unbound *symbolic.UnboundError
	require.ErrorAs(t, err, &unbound)
	require.Equal(t, []string{"rows"}, unbound.Symbols)
}
