package planner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/chunk"
)

// endless is an effort that no search comes to the end of.
const endless = 1e5

// late is a context whose deadline passes when the function that it returns is called: the clock is that of
// synctest, which stands still while anything is computed.
func late(t *testing.T) (context.Context, func()) {
	ctx, cancel := timelimit.With(t.Context(), time.Now().Add(time.Minute))
	t.Cleanup(cancel)
	return ctx, func() { time.Sleep(time.Hour) }
}

// TestTimeLimit: whatever is searched, the limit ends it with a plan, which says so, and with the
// layout that it was judged by.
func TestTimeLimit(t *testing.T) {
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 3, Hidden: 64, Heads: 4, Vocab: 500,
		Positions: 64})
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	dims := map[string]int64{"batch": 4, "seq": 64}
	for name, c := range map[string]struct {
		budget planner.Budget
		order  planner.OrderChoice
		chunk  chunk.Mode
	}{
		"ladder":  {planner.Budget{Share: 0.45, Effort: endless}, "", ""},
		"parts":   {planner.Budget{Share: 0.45, Effort: endless}, "", chunk.Exact},
		"memory":  {planner.Budget{Share: 0.45, Effort: endless}, planner.OrderMemory, ""},
		"runtime": {planner.Budget{Share: 0.8, Effort: endless, Runtime: true}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, pass := late(t)
				told := 0
				c.budget.Found = func() {
					told++
					pass()
				}
				p, err := planner.MakeContext(ctx, m, types,
					planner.Options{Dims: dims, Strategy: &c.budget, Order: c.order, Chunk: c.chunk})
				require.NoError(t, err)
				require.True(t, p.Stopped)
				require.Positive(t, told, "nobody was told of a plan")
				if !c.budget.Runtime {
					require.LessOrEqual(t, float64(p.Arena.Bytes), c.budget.Share*float64(p.Base.Peak.Bytes))
				}
			})
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	curve, err := planner.Pareto(ctx, m, types,
		planner.Options{Dims: dims, Strategy: &planner.Budget{Share: 1, Effort: endless}}, 4)
	require.NoError(t, err)
	require.Len(t, curve.Points, 4, "every budget has a plan, however short the time is")
	require.True(t, curve.Stopped)
	checkCurve(t, curve)
	done, end := context.WithCancel(t.Context())
	end()
	curve, err = planner.Pareto(done, m, types,
		planner.Options{Dims: dims, Strategy: &planner.Budget{Share: 1, Effort: endless}}, 5)
	require.NoError(t, err)
	require.Len(t, curve.Points, 5)
	require.False(t, curve.Stopped, "it is not the limit that ended it")
	checkCurve(t, curve)
}

// TestParetoSpreads: with little time, the budgets in the middle of a curve have plans of their own,
// which cost less than the first one.
func TestParetoSpreads(t *testing.T) {
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 12, Hidden: 64, Heads: 4, Vocab: 500,
		Positions: 64})
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	curve, err := planner.Pareto(ctx, m, types, planner.Options{Dims: map[string]int64{"batch": 4, "seq": 64},
		Strategy: &planner.Budget{Share: 1, Effort: endless}}, 8)
	require.NoError(t, err)
	checkCurve(t, curve)
	nodes := map[int]bool{}
	for _, pt := range curve.Points {
		nodes[pt.Nodes] = true
	}
	require.Greater(t, len(nodes), 4, "%+v", curve.Points)
}

// checkCurve holds a curve to what it promises.
func checkCurve(t *testing.T, c *planner.Curve) {
	t.Helper()
	for i, pt := range c.Points {
		require.LessOrEqual(t, pt.Live, pt.Arena)
		require.LessOrEqual(t, pt.Arena, pt.Budget)
		require.LessOrEqual(t, pt.LowerBound, pt.Overhead)
		if i > 0 {
			require.LessOrEqual(t, pt.Overhead, c.Points[i-1].Overhead)
			require.GreaterOrEqual(t, pt.Budget, c.Points[i-1].Budget)
		}
	}
	require.Zero(t, c.Points[len(c.Points)-1].Overhead)
}

// TestNoTime: where no time was given to begin with, and the first plan is asked for, it is found all the
// same, in whatever way; where work was asked for, too, plans are still as good as the first one.
func TestNoTime(t *testing.T) {
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 3, Hidden: 64, Heads: 4, Vocab: 500,
		Positions: 64})
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	dims := map[string]int64{"batch": 4, "seq": 64}
	for name, b := range map[string]planner.Budget{
		"nodes":    {Share: 0.45},
		"work":     {Share: 0.45, Effort: endless},
		"clusters": {Share: 0.8, Clusters: true},
		"runtime":  {Share: 0.9, Runtime: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, pass := late(t)
				pass()
				p, err := planner.MakeContext(ctx, m, types,
					planner.Options{Dims: dims, Strategy: &b, RowPeaks: true, Alternatives: true})
				require.NoError(t, err)
				require.True(t, p.Fit.Fits())
				require.NotEmpty(t, p.Placements)
				require.Empty(t, p.Alternatives)
				for _, row := range p.Clusters {
					require.False(t, row.Dropped, "time was spent on what is only shown")
				}
			})
		})
	}
}

// TestRuledOut: a budget that a lower bound rules out ends before any search, with the bound, whatever is
// chosen from; so does a budget that inputs and weights alone are above.
func TestRuledOut(t *testing.T) {
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 2, Hidden: 32, Heads: 4, Vocab: 100,
		Positions: 32})
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	opts := planner.Options{Dims: map[string]int64{"batch": 4, "seq": 32}}
	asIs, err := planner.Make(m, types, opts)
	require.NoError(t, err)
	least := asIs.Base.LowerBound
	for name, c := range map[string]struct {
		budget planner.Budget
		chunk  chunk.Mode
		bound  int64 // 0: any above the budget
	}{
		"nodes":    {planner.Budget{Arena: least - 1}, "", least},
		"clusters": {planner.Budget{Arena: least - 1, Clusters: true}, "", least},
		"share":    {planner.Budget{Share: 1e-9}, "", least},
		"parts":    {planner.Budget{Arena: 1}, chunk.Fast, 0},
		"held":     {planner.Budget{Total: asIs.Persistent}, chunk.Exact, least},
		"runtime":  {planner.Budget{Total: asIs.Persistent - 1, Runtime: true}, chunk.Exact, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.budget.Effort = endless
			c.budget.Progress = func(planner.SearchProgress) { t.Error("a plan was tried") }
			o := opts
			o.Strategy, o.Chunk = &c.budget, c.chunk
			_, err := planner.MakeContext(t.Context(), m, types, o)
			var infeasible *planner.InfeasibleError
			require.ErrorAs(t, err, &infeasible)
			require.False(t, infeasible.Searched())
			require.Zero(t, infeasible.LowestLive)
			switch {
			case c.bound > 0:
				require.Equal(t, c.bound, infeasible.LowerBound)
			case !c.budget.Runtime:
				require.Greater(t, infeasible.LowerBound, infeasible.Budget)
				require.Less(t, infeasible.LowerBound, least)
			}
			require.NotContains(t, err.Error(), "reached")
		})
	}
}

// TestInterruptedPlan: a context that is done when it is asked for leaves a plan where the first
// one fits, and nothing endless.
func TestInterruptedPlan(t *testing.T) {
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 2, Hidden: 32, Heads: 4, Vocab: 100,
		Positions: 32})
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, clusters := range []bool{false, true} {
		for _, order := range planner.OrderChoices {
			opts := planner.Options{Dims: map[string]int64{"batch": 4, "seq": 32}, Order: order, RowPeaks: true}
			opts.Strategy = &planner.Budget{Share: 2, Effort: endless, Clusters: clusters}
			p, err := planner.MakeContext(ctx, m, types, opts)
			require.NoError(t, err)
			require.False(t, p.Stopped, "it is not the limit that ended it")
			require.NotNil(t, p.Arena)
			opts.Strategy = &planner.Budget{Share: 0.2, Effort: endless, Clusters: clusters}
			_, err = planner.MakeContext(ctx, m, types, opts)
			require.ErrorIs(t, err, planner.ErrInfeasible)
		}
	}
}
