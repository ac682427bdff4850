package planner_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/planner/envelope"
	"memopt/symbolic"
)

// TestMakeSpan: a plan for a range fits at every size of it, and no plan of the range takes more than
// its Span says.
func TestMakeSpan(t *testing.T) {
	found, tight := 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 21))
		m, err := memopt.New(graphtest.Training(rng, graphtest.Options{Nodes: 20 + rng.IntN(60), Symbolic: true,
			Width: []int64{1, 8, 64}[seed%3], Yield: true}), memopt.Options{})
		require.NoError(t, err)
		box := envelope.Box{{Symbol: "N", Lo: 1 + rng.Int64N(3), Hi: 12}}
		top := planAt(t, m, nil)(box.High())
		total := top.Persistent + top.Base.Peak.Bytes
		budget := planner.Budget{Total: total - top.Base.Peak.Bytes*rng.Int64N(40)/100}
		p, err := planner.MakeSpan(t.Context(), m.Model, m.Types, planner.Options{Strategy: budget}, box)
		if errors.Is(err, planner.ErrInfeasible) {
			continue
		}
		require.NoError(t, err, "seed %d", seed)
		found++
		require.LessOrEqual(t, p.Span.Most, budget.Total)
		require.Equal(t, int64(12), p.Options.Dims["N"])
		require.Len(t, p.Span.Prices, 3)
		most := int64(0)
		eachPoint(box, func(env symbolic.Env) {
			q, err := planner.Make(m.Model, m.Types, planner.Options{Dims: env,
				Strategy: &planner.PlanFile{Placements: p.Placements, Order: p.Analysis.Order}})
			require.NoError(t, err)
			require.LessOrEqual(t, q.Persistent+q.Arena.Bytes, budget.Total, "seed %d at %v", seed, env)
			most = max(most, q.Persistent+q.Planned.Peak.Bytes)
		})
		require.GreaterOrEqual(t, p.Span.Most, most)
		if len(p.Placements) > 0 {
			tight++
		}
		for _, price := range p.Span.Prices {
			own, err := planner.Make(m.Model, m.Types, planner.Options{Dims: price.Dims, Strategy: budget})
			if errors.Is(err, planner.ErrInfeasible) {
				require.Nil(t, price.Own)
				continue
			}
			require.NoError(t, err)
			want := &planner.OwnPrice{Total: own.Persistent + own.Arena.Bytes, Overhead: own.Overhead}
			require.Equal(t, want, price.Own)
		}
		record := p.FileRecord("sha", 0, "devel")
		require.Equal(t, map[string][2]int64{"N": {box[0].Lo, 12}}, record.Ranges)
	}
	require.Greater(t, found, 15)
	require.Greater(t, tight, 5)
}

// TestMakeSpanRefuses: what has no meaning for a range is an error.
func TestMakeSpanRefuses(t *testing.T) {
	m, err := memopt.Example("mlp", memopt.Options{})
	require.NoError(t, err)
	box := envelope.Box{{Symbol: "batch", Lo: 1, Hi: 64}}
	for _, s := range []planner.Strategy{nil, planner.Layerwise, planner.Budget{Share: 0.5},
		planner.Budget{Total: 1 << 30, Runtime: true}} {
		_, err := planner.MakeSpan(t.Context(), m.Model, m.Types, planner.Options{Strategy: s}, box)
		require.ErrorContains(t, err, "keeps within a number of bytes")
	}
	small := planner.Options{Strategy: planner.Budget{Total: 1 << 20}}
	_, err = planner.MakeSpan(t.Context(), m.Model, m.Types, small, box)
	require.ErrorIs(t, err, planner.ErrInfeasible)
	require.ErrorContains(t, err, "at batch=64")
}

// TestPlanFileOfSpan: a plan for a range is no plan for other sizes within the range.
func TestPlanFileOfSpan(t *testing.T) {
	m, err := memopt.Example("mlp", memopt.Options{})
	require.NoError(t, err)
	box := envelope.Box{{Symbol: "batch", Lo: 64, Hi: 4096}}
	p, err := planner.MakeSpan(t.Context(), m.Model, m.Types,
		planner.Options{Strategy: planner.Budget{Total: 700 << 20}}, box)
	require.NoError(t, err)
	file := &planner.PlanFile{Placements: p.Placements, Order: p.Analysis.Order, Record: p.FileRecord("", 0, "")}
	for n, warned := range map[int64]bool{64: false, 500: false, 4096: false, 63: true, 4097: true} {
		q, err := planner.Make(m.Model, m.Types, planner.Options{Dims: symbolic.Env{"batch": n}, Strategy: file})
		require.NoError(t, err)
		require.Equal(t, warned, strings.Contains(strings.Join(q.Warnings, "\n"), "made for batch=4096"), "batch=%d", n)
	}
}
