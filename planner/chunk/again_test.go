package chunk_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/planner/chunk"
)

// TestPartsOfParts cuts a graph in parts again. Random parts of outer dims draw what the whole draws
// then, too; parts of inner dims, which draw runs of it, are left alone.
func TestPartsOfParts(t *testing.T) {
	m := trained(t, `m (float[8, 6] x, float[6] w) => (float loss) <float ratio = {0.4}, bool on = {1}> {
		a = Mul(x, w)  b = Tanh(a)  d, mask = Dropout<seed = 5>(b, ratio, on)  e = Exp(d)  loss = ReduceMean<keepdims = 0>(e) }`,
		nil, "w")
	b := newBaseline(t, m)
	for _, c := range []struct {
		dim, again string
		why        string
	}{
		{dim: "0", again: "0"},
		{dim: "0", again: "1"},
		{dim: "1", again: "0", why: "draws at random, and its parts cannot draw the same numbers"},
		{dim: "1", again: "1", why: "draws at random, and its parts cannot draw the same numbers"},
	} {
		cut, err := chunk.Around(b.bound, b.order, "d", c.dim, 2, 0, chunk.Fast)
		require.NoError(t, err)
		once := b.hold(t, *cut)
		_, made := once.Graph.Lookup("d_part1")
		require.True(t, made)
		order := graph.FileOrder(once.Graph)
		second, err := chunk.Around(once.Model, order, "d_part1", c.again, 2, 0, chunk.Fast)
		if c.why != "" {
			require.ErrorContains(t, err, c.why)
			continue
		}
		require.NoError(t, err)
		p, err := once.Plan(t.Context(), nil, memopt.PlanOptions{})
		require.NoError(t, err)
		twice := &baseline{m: once, bound: once.Model, order: order, plan: p, x: b.x}
		twice.holdWithin(t, verify.Tolerance{Abs: 1e-6, Rel: 1e-5}, *second)
	}
}
