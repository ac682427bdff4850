package planner_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/rapidflags"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/symbolic"
)

// TestPartsCostNoMore: whatever the graph and the budget, a plan that may have regions in parts fits
// wherever one without does, costs no more, keeps its promise, and is the same each time; and
// nothing is cut where recomputation alone costs next to nothing.
func TestPartsCostNoMore(t *testing.T) {
	inParts := 0
	for i := range rapidflags.Cases(16) {
		seed := (uint64(i) + 8) % 16 // parts pay with the first of these
		rng := rand.New(rand.NewPCG(seed, 11))
		m := graphtest.Training(rng, graphtest.Options{Nodes: 10 + rng.IntN(40), Layers: seed%2 == 0,
			Parts: seed%4 == 1, Yield: seed%3 == 0, Rows: 2048})
		types, err := op.Infer(m)
		require.NoError(t, err)
		as, err := planner.Make(m, types, planner.Options{})
		require.NoError(t, err)
		b := planner.Budget{Arena: int64((0.6 + rng.Float64()) * float64(as.Base.LowerBound)), Effort: 0.01}
		if planInParts(t, m, types, b, []chunk.Mode{chunk.Exact, chunk.Fast}[seed%5%2]) {
			inParts++
		}
	}
	t.Logf("%d plans have regions in parts", inParts)
	require.GreaterOrEqual(t, inParts, 3)
}

// planInParts holds a plan with regions in parts to the one without; it reports whether it has any.
func planInParts(t *testing.T, m *graph.Model, types *op.Result, b planner.Budget, mode chunk.Mode) bool {
	o := planner.Options{Strategy: b}
	alone, aloneErr := planner.Make(m, types, o)
	o.Chunk = mode
	p, err := planner.Make(m, types, o)
	again, againErr := planner.Make(m, types, o)
	require.Equal(t, err == nil, againErr == nil)
	var infeasible, infeasibleAlone *planner.InfeasibleError
	if err != nil {
		require.ErrorAs(t, err, &infeasible)
		require.ErrorAs(t, aloneErr, &infeasibleAlone, "it fits without parts: %v", err)
		require.LessOrEqual(t, infeasible.LowestArena, infeasibleAlone.LowestArena)
		require.Equal(t, err.Error(), againErr.Error())
		return false
	}
	require.Equal(t, p.Overhead, again.Overhead)
	require.Equal(t, p.Fission, again.Fission)
	require.LessOrEqual(t, p.Arena.Bytes, b.Arena)
	require.LessOrEqual(t, p.Planned.Peak.Bytes, p.Arena.Bytes)
	if aloneErr == nil {
		require.LessOrEqual(t, p.Overhead, alone.Overhead)
		if alone.Overhead <= 0.01 {
			require.Empty(t, p.Fission)
		}
	} else {
		require.True(t, errors.As(aloneErr, &infeasibleAlone))
		require.NotEmpty(t, p.Fission)
	}
	for _, c := range p.Fission {
		require.True(t, c.Exact || mode == chunk.Fast)
	}
	return len(p.Fission) > 0
}

// TestPartsWhereNothingElseFits: of a step whose largest node needs more than a budget, a plan in parts
// fits, and the error of a budget below all parts says how low they come beside how low
// recomputation alone comes.
func TestPartsWhereNothingElseFits(t *testing.T) {
	e, ok := examples.Lookup("transformer")
	require.True(t, ok)
	m, err := e.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	o := planner.Options{Dims: symbolic.Env{"batch": 8, "seq": 512}}
	as, err := planner.Make(m, types, o)
	require.NoError(t, err)
	below := int64(0.7 * float64(as.Base.LowerBound))
	o.Strategy = planner.Budget{Arena: below, Effort: 0.05}
	_, err = planner.Make(m, types, o)
	require.ErrorIs(t, err, planner.ErrInfeasible)
	o.Chunk = chunk.Exact
	p, err := planner.Make(m, types, o)
	require.NoError(t, err)
	require.NotEmpty(t, p.Fission)
	require.LessOrEqual(t, p.Arena.Bytes, below)
	require.Positive(t, p.Overhead)
	require.False(t, math.IsInf(p.Overhead, 0))

	o.Strategy = planner.Budget{Arena: 1000, Effort: 0.05}
	_, err = planner.Make(m, types, o)
	var infeasible *planner.InfeasibleError
	require.ErrorAs(t, err, &infeasible)
	require.Nil(t, infeasible.Whole, "the bound rules it out before any search")
	require.Greater(t, infeasible.LowerBound, int64(1000))
	o.Strategy = planner.Budget{Arena: as.Base.LowerBound * 3 / 10, Effort: 0.05}
	_, err = planner.Make(m, types, o)
	require.ErrorAs(t, err, &infeasible)
	require.Positive(t, infeasible.LowestArena, "this budget is searched")
	require.Less(t, infeasible.LowestArena, as.Base.LowerBound)
	require.NotNil(t, infeasible.Whole)
	require.Zero(t, infeasible.Whole.Arena, "the bound of recomputation alone rules that search out")
	require.GreaterOrEqual(t, infeasible.Whole.Bound, as.Base.LowerBound)

	// Where recomputation alone fits, too, the cheaper of both counts.
	within := func(b planner.Budget) (alone, parts *planner.Plan) {
		o.Strategy, o.Chunk = b, chunk.Off
		alone, err := planner.Make(m, types, o)
		require.NoError(t, err)
		o.Chunk = chunk.Exact
		parts, err = planner.Make(m, types, o)
		require.NoError(t, err)
		return alone, parts
	}
	alone, p := within(planner.Budget{Arena: int64(1.06 * float64(as.Base.LowerBound)), Effort: 0.2})
	require.NotEmpty(t, p.Fission)
	require.Less(t, p.Overhead, 0.8*alone.Overhead)

	// Next to nothing is not worth a cut.
	alone, p = within(planner.Budget{Share: 0.96, Effort: 0.2})
	require.Positive(t, alone.Overhead)
	require.Less(t, alone.Overhead, 0.01)
	require.Empty(t, p.Fission)

	// A budget that everything fits changes nothing.
	o.Strategy = planner.Budget{Share: 1.1, Effort: 0.05}
	p, err = planner.Make(m, types, o)
	require.NoError(t, err)
	require.Empty(t, p.Fission)
	require.Zero(t, p.Overhead)
}
