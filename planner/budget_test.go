package planner_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/rapidflags"
	"memopt/planner"
	"memopt/recompute"
	"memopt/symbolic"
)

// sweep plans to rising budgets and checks what a budget promises: the arena is within it, a larger
// one never costs more, the bound is below the cost, and the rewritten graph is what the plan says.
func sweep(t *testing.T, m *graph.Model, opts planner.Options, budget planner.Budget, shares []float64) (fits int) {
	types, err := op.Infer(m)
	require.NoError(t, err)
	last := -1.0
	for _, share := range shares {
		budget.Share = share
		opts.Strategy = &budget
		p, err := planner.Make(m, types, opts)
		var no *planner.InfeasibleError
		if err != nil {
			require.ErrorAs(t, err, &no)
			require.ErrorIs(t, err, planner.ErrInfeasible)
			if no.LowestArena == 0 { // the bound has ruled the budget out before any search
				require.Greater(t, no.LowerBound, no.Budget)
			} else {
				require.Greater(t, no.LowestArena, no.Budget)
				require.LessOrEqual(t, no.LowerBound, no.LowestLive+256*int64(len(m.Graph.Nodes)))
			}
			require.Zero(t, fits, "a larger budget does not fit")
			continue
		}
		require.LessOrEqual(t, float64(p.Arena.Bytes), share*float64(p.Base.Peak.Bytes))
		if last >= 0 {
			require.LessOrEqual(t, p.Overhead, last+1e-12)
		}
		last = p.Overhead
		if p.Bound != nil {
			require.LessOrEqual(t, p.Bound.Overhead, p.Overhead*(1+1e-9)+1e-12)
			require.Equal(t, p.Bound.Optimal, p.Bound.Gap == 0)
			require.InDelta(t, (p.Overhead-p.Bound.Overhead)/(1+p.Overhead), p.Bound.Gap, 1e-6)
		}
		if p.Lower != nil {
			require.Less(t, p.Lower.Arena, p.Arena.Bytes)
			require.GreaterOrEqual(t, p.Lower.Overhead, p.Overhead*(1-1e-9)-1e-12)
		}
		checkPlan(t, p, 0)
		fits++
	}
	return fits
}

func shares(from, to float64, n int) []float64 {
	var out []float64
	for i := range n {
		out = append(out, from+(to-from)*float64(i)/float64(n-1))
	}
	return out
}

func TestBudgetsOfRandomGraphs(t *testing.T) {
	fits := 0
	for seed := range uint64(rapidflags.Cases(12)) {
		rng := rand.New(rand.NewPCG(seed, 21))
		m := graphtest.Training(rng,
			graphtest.Options{Nodes: 20 + rng.IntN(100), Yield: seed%3 == 0, Layers: seed%2 == 0, Parts: seed%4 == 1})
		budget := planner.Budget{Effort: 0.01, Seed: int64(seed), Clusters: seed%5 == 4}
		fits += sweep(t, m, planner.Options{}, budget, shares(0.3, 1.1, 6))
	}
	require.Greater(t, fits, rapidflags.Cases(30))
}

// TestMonotone: fifty budgets of a small built-in graph, and some of the others.
func TestMonotone(t *testing.T) {
	for _, ex := range examples.All() {
		m, err := ex.Build()
		require.NoError(t, err)
		n := 6
		if ex.Name == "mlp" {
			n = rapidflags.Cases(50)
		}
		fits := sweep(t, m, planner.Options{Dims: ex.Dims}, planner.Budget{Effort: 0.05}, shares(0.3, 1, n))
		require.Greater(t, fits, n/2, ex.Name)
	}
}

// TestPareto: peaks are within the budgets, and neither overheads nor bounds rise with them.
func TestPareto(t *testing.T) {
	for _, ex := range examples.All() {
		m, err := ex.Build()
		require.NoError(t, err)
		types, err := op.Infer(m)
		require.NoError(t, err)
		c, err := planner.Pareto(context.Background(), m, types,
			planner.Options{Dims: ex.Dims, Strategy: &planner.Budget{Effort: 0.03}}, 20)
		require.NoError(t, err)
		require.Len(t, c.Points, 20)
		require.False(t, c.Stopped, "there was no limit")
		checkCurve(t, c)
		for i, pt := range c.Points[1:] {
			require.Greater(t, pt.Budget, c.Points[i].Budget)
		}
		checkPoints(t, m, types, ex.Dims, c)
	}
}

// checkPoints holds the plan file of each point to its budget: planned anew, it takes what the point
// says and costs what the point says.
func checkPoints(t *testing.T, m *graph.Model, types *op.Result, dims symbolic.Env, c *planner.Curve) {
	t.Helper()
	for i, pt := range c.Points {
		if i%4 != 0 {
			continue // each is a plan of its own
		}
		r := c.FileRecord(i, "hash", 3, "v1")
		require.Equal(t, pt.Budget, r.Budget.ArenaBytes)
		require.Equal(t, pt.Arena, r.Predicted.ArenaBytes)
		placements, err := recompute.ResolvePlacements(m.Graph, r.Placements)
		require.NoError(t, err)
		order, err := recompute.ResolveOrder(m.Graph, r.Order)
		require.NoError(t, err)
		p, err := planner.Make(m, types, planner.Options{Dims: dims, Within: &planner.Budget{Arena: pt.Budget},
			Strategy: &planner.PlanFile{Placements: placements, Order: order, Record: r}})
		require.NoError(t, err)
		require.True(t, p.Fit.Fits(), "%d of %d bytes", p.Arena.Bytes, pt.Budget)
		require.Equal(t, pt.Live, p.Planned.Peak.Bytes)
		require.Equal(t, pt.Nodes, p.Recompute.Nodes)
		require.InDelta(t, pt.Overhead, p.Overhead, 1e-6)
		require.Equal(t, p.PeakRecord().BaselineBytes, r.Predicted.BaselineBytes)
		require.Equal(t, r.Predicted.ArenaBytes+p.Persistent, r.Predicted.TotalBytes)
		require.Equal(t, p.PeakRecord().LowerBoundBytes, r.Predicted.LowerBoundBytes)
		require.Equal(t, p.PeakRecord().PersistentBytes, r.Predicted.PersistentBytes)
	}
}

// TestWorkspaceCounts: what kernels need besides their operands is in the peaks and within the
// budget.
func TestWorkspaceCounts(t *testing.T) {
	ex, _ := examples.Lookup("mlp")
	m, err := ex.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	plain, err := planner.Make(m, types, planner.Options{Dims: ex.Dims})
	require.NoError(t, err)
	opts := planner.Options{Dims: ex.Dims, Workspace: make([]int64, len(m.Graph.Nodes))}
	const extra = 300 << 20
	opts.Workspace[plain.Base.Peak.Node] = extra
	more, err := planner.Make(m, types, opts)
	require.NoError(t, err)
	require.Equal(t, plain.Base.Peak.Bytes+extra, more.Base.Peak.Bytes)
	require.LessOrEqual(t, more.Base.Peak.Bytes, more.Arena.Bytes)
	opts.Strategy = &planner.Budget{Arena: plain.Base.Peak.Bytes, Effort: 0.1}
	p, err := planner.Make(m, types, opts)
	require.NoError(t, err)
	require.LessOrEqual(t, p.Arena.Bytes, plain.Base.Peak.Bytes)
	require.Positive(t, p.Recompute.Nodes)
}

// TestStashLimits: what nodes of a name stash stays within the limit, with and without a budget for
// all.
func TestStashLimits(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	stash := func(p *planner.Plan) int64 {
		total := int64(0)
		for _, st := range p.Stashed {
			if st.WhyKept != "" && graph.MatchGlob("*ln_*", m.Graph.NodeLabel(st.Node)) {
				total += p.Sizes.Bytes[st.Value]
			}
		}
		return total
	}
	plain, err := planner.Make(m, types, planner.Options{Dims: ex.Dims})
	require.NoError(t, err)
	before := stash(plain)
	require.Positive(t, before)
	for _, share := range []float64{0, 0.8} {
		p, err := planner.Make(m, types,
			planner.Options{
				Dims: ex.Dims,
				Strategy: &planner.Budget{
					Share: share, Effort: 0.1, StashLimits: []planner.StashLimit{{Glob: "*ln_*", Bytes: before / 2}},
				},
			})
		require.NoError(t, err)
		require.LessOrEqual(t, stash(p), before/2)
		require.Positive(t, p.Recompute.Nodes)
		checkPlan(t, p, 0)
	}
	_, err = planner.Make(m, types,
		planner.Options{
			Dims: ex.Dims, Strategy: &planner.Budget{StashLimits: []planner.StashLimit{{Glob: "nothing*", Bytes: 1}}},
		})
	require.ErrorIs(t, err, planner.ErrStashLimit)
}
