package chunk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner/chunk"
)

// TestCuts cuts values of training graphs along their dims, and holds the graph in parts to the whole
// one: with some drawn ones.
func TestCuts(t *testing.T) {
	const seed = 1
	for _, c := range []struct {
		name string
		cuts int
	}{{"mlp", 3}, {"cnn", 10}, {"transformer-small", 25}} {
		t.Run(c.name, func(t *testing.T) {
			m, err := memopt.Example(c.name, memopt.Options{Dims: map[string]int64{"batch": 3, "seq": 5}})
			require.NoError(t, err)
			b := newBaseline(t, m)
			rng := rand.New(rand.NewPCG(seed, 0))
			seen := map[string]bool{}
			for _, v := range rng.Perm(len(m.Graph.Values)) {
				for _, dim := range []string{"0", "1", "2", "3", "0-1", "0-2"} {
					cut, err := chunk.Around(b.bound, b.order, m.Graph.Values[v].Name, dim, 2+v%3,
						[]float64{0.5, 0.1}[v%2], chunk.Fast)
					if err != nil || seen[fmt.Sprint(cut.Nodes)] || len(seen) == c.cuts {
						continue
					}
					seen[fmt.Sprint(cut.Nodes)] = true
					b.hold(t, *cut)
				}
			}
			t.Logf("%d cuts of seed %d", len(seen), seed)
			require.Len(t, seen, c.cuts)
		})
	}
}

// baseline is a graph to which graphs in parts are held.
type baseline struct {
	m     *memopt.Model
	bound *graph.Model
	order graph.Order
	plan  *memopt.Plan
	x     *memopt.Execution
}

func newBaseline(t rapid.TB, m *memopt.Model) *baseline {
	p, err := m.Plan(context.Background(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	bound, err := chunk.Bind(m.Model, m.Dims)
	require.NoError(t, err)
	b := &baseline{m, bound, p.Analysis.Order, p, p.Execution()}
	require.NoError(t, b.x.Fill(1))
	return b
}

// hold applies cuts, executes both graphs and compares what they give.
func (b *baseline) hold(t rapid.TB, cuts ...chunk.Cut) *memopt.Model {
	t.Helper()
	return b.holdWithin(t, verify.Tolerance{Abs: 1e-5, Rel: 1e-4}, cuts...)
}

// holdWithin is hold with a tolerance for cuts that are not exact.
func (b *baseline) holdWithin(t rapid.TB, tolerance verify.Tolerance, cuts ...chunk.Cut) *memopt.Model {
	t.Helper()
	a, err := chunk.Apply(context.Background(), b.m.Model, b.order, b.plan.Analysis.Boundary, b.m.Dims, cuts)
	require.NoError(t, err, "%v", cuts)
	parts, err := memopt.New(a.Model, memopt.Options{Warn: func(text string) { t.Fatalf("%v: %s", cuts, text) }})
	require.NoError(t, err, "%v", cuts)
	side := parts.Execution().Baseline
	side.Order, side.Dims = graph.FileOrder(parts.Graph), b.m.Dims
	tolerance.Bitwise = true
	for _, c := range a.Cuts {
		tolerance.Bitwise = tolerance.Bitwise && c.Exact
	}
	v, err := verify.Verify(context.Background(), b.x.Baseline, side, b.x.Inputs,
		verify.Options{Engine: verify.On(cpu.Device{})}, tolerance)
	require.NoError(t, err, "%v", cuts)
	require.Nil(t, v.First, "%v", cuts)
	return parts
}

// TestPropose: what is proposed lowers what single steps need, all of it can be applied at once, and
// the graph gives what the whole one gives.
func TestPropose(t *testing.T) {
	for _, c := range []struct {
		name string
		dims map[string]int64
		cut  float64 // to which the need of the worst step comes down at least
	}{
		{"transformer-small", map[string]int64{"batch": 16, "seq": 33}, 0.7},
		{"cnn", map[string]int64{"batch": 4}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := memopt.Example(c.name, memopt.Options{Dims: c.dims})
			require.NoError(t, err)
			b := newBaseline(t, m)
			need := worstStep(t, b.bound.Graph)
			lists, err := chunk.Propose(t.Context(), m.Model, b.order, m.Dims, need/2, chunk.Fast)
			require.NoError(t, err)
			again, err := chunk.Propose(t.Context(), m.Model, b.order, m.Dims, need/2, chunk.Fast)
			require.NoError(t, err)
			require.Equal(t, lists, again)
			lowest := need
			floor, err := chunk.Floor(m.Model, b.order, m.Dims, chunk.Fast)
			require.NoError(t, err)
			require.Positive(t, floor)
			for i, cuts := range lists[:min(len(lists), 2)] {
				parts := b.hold(t, cuts...)
				lowest = min(lowest, worstStep(t, parts.Graph))
				if i == 0 {
					require.GreaterOrEqual(t, reached(t, parts), floor)
				}
			}
			t.Logf("%d lists: worst step %d -> %d bytes", len(lists), need, lowest)
			require.LessOrEqual(t, float64(lowest), c.cut*float64(need))
			require.GreaterOrEqual(t, reached(t, m), floor)
			off, err := chunk.Propose(t.Context(), m.Model, b.order, m.Dims, need/2, chunk.Off)
			require.NoError(t, err)
			require.Empty(t, off)
		})
	}
}

// worstStep is the most bytes that one node reads and makes; views and joins of parts make none.
func worstStep(t *testing.T, g *graph.Graph) (most int64) {
	sizes, err := live.EvalSizes(g, nil)
	require.NoError(t, err)
	for _, n := range g.Nodes {
		if op.Of(n.Kind).View || n.Op == "Slice" || n.Op == "Concat" {
			continue
		}
		seen := map[graph.ValueID]bool{graph.NoValue: true}
		need := int64(0)
		for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
			for _, v := range list {
				if !seen[v] {
					seen[v] = true
					need += sizes.Bytes[v]
				}
			}
		}
		most = max(most, need)
	}
	return most
}

// reached is the lowest peak that recomputation reaches, in bytes.
func reached(t *testing.T, m *memopt.Model) int64 {
	o := memopt.PlanOptions{}
	o.Order = "file"
	c, err := m.Pareto(t.Context(), memopt.Budget{Share: 1, Effort: 0.1}, o, 2)
	require.NoError(t, err)
	return c.Points[0].Live
}

// TestExact: what is said to keep bits keeps them, in a head whose gradient comes from outside and in
// one that goes through both halves chunk by chunk, with labels that are ignored.
func TestExact(t *testing.T) {
	dims := map[string]int64{"batch": 5, "seq": 128}
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: dims})
	require.NoError(t, err)
	d := decoder{layers: 1, hidden: 64, heads: 4, ffn: 128, vocab: 500}.step(t, dims)
	for _, c := range []struct {
		m          *memopt.Model
		value, dim string
	}{
		{m, "/lm_head/MatMul_output_0", "0-1"},
		{m, "/transformer/h.1/attn/MatMul_output_0", "0-1"},
		{m, "/transformer/h.2/mlp/c_fc/MatMul_output_0", "0-1"},
		{d, "logits", "0-1"},
		{d, "l0_scores", "0-1"},
		{d, "l0_units", "0-1"},
	} {
		b := newBaseline(t, c.m)
		cut, err := chunk.Around(b.bound, b.order, c.value, c.dim, 8, 0.5, chunk.Exact)
		require.NoError(t, err)
		require.True(t, cut.Exact, c.value)
		b.hold(t, *cut)
	}
}

// TestProposeUntilDone: a context that is done ends the search, however large the graph.
func TestProposeUntilDone(t *testing.T) {
	m := graphtest.Training(rand.New(rand.NewPCG(1, 2)), graphtest.Options{Nodes: 20_000, Layers: true})
	_, err := op.Infer(m)
	require.NoError(t, err)
	order := graph.FileOrder(m.Graph)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lists, err := chunk.Propose(ctx, m, order, nil, 1<<20, chunk.Exact)
	require.NoError(t, err)
	require.Empty(t, lists)
}

// TestProposeForFewBytes: values of no bytes are none that a budget of a few bytes asks to be cut.
func TestProposeForFewBytes(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 19))
		m, err := memopt.New(
			graphtest.Training(rng, graphtest.Options{Nodes: 30, Parts: seed%2 == 0, Control: seed%5 == 0,
				Rows: int64(rng.IntN(3)), Width: 2}), memopt.Options{})
		require.NoError(t, err)
		for _, budget := range []int64{1, 8, 20, 60} {
			_, err := chunk.Propose(t.Context(), m.Model, graph.FileOrder(m.Graph), nil, budget, chunk.Exact)
			require.NoError(t, err)
		}
	}
}
