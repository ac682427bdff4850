package planner_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/planner/envelope"
	"memopt/symbolic"
)

// TestMakeBands: every size up to the quantile has a plan that fits there, and the expected time is the sum over the
// steps, no more than with one plan.
func TestMakeBands(t *testing.T) {
	found, several, beyond := 0, 0, 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 43))
		m, err := memopt.New(graphtest.Training(rng, graphtest.Options{Nodes: 20 + rng.IntN(60), Symbolic: true,
			Width: []int64{8, 64}[seed%2], Yield: true}), memopt.Options{})
		require.NoError(t, err)
		var drawn []planner.Length
		for size := 1 + rng.Int64N(3); size <= 40; size += 1 + rng.Int64N(6) {
			drawn = append(drawn, planner.Length{Size: size, Share: rng.ExpFloat64()})
		}
		h, err := planner.NewHistogram("N", drawn)
		require.NoError(t, err)
		quantile := []float64{1, 0.9, 0.5}[seed%3]
		last := h.Quantile(quantile)
		top := planAt(t, m, nil)(symbolic.Env{"N": last})
		budget := planner.Budget{Total: top.Persistent + top.Base.Peak.Bytes - top.Base.Peak.Bytes*rng.Int64N(40)/100}
		most := 1 + rng.IntN(5)
		b, err := planner.MakeBands(t.Context(), m.Model, m.Types, planner.Options{Strategy: budget}, h, most, quantile)
		if errors.Is(err, planner.ErrInfeasible) {
			continue
		}
		require.NoError(t, err, "seed %d", seed)
		found++
		require.LessOrEqual(t, len(b.List), most)
		require.Equal(t, h.Lengths[0].Size, b.List[0].Lo)
		require.Equal(t, last, b.List[len(b.List)-1].Hi)
		shares := b.Beyond
		for i, band := range b.List {
			if i > 0 {
				require.Equal(t, b.List[i-1].Hi+1, band.Lo)
			}
			shares += band.Share
			require.LessOrEqual(t, band.Plan.Span.Most, budget.Total)
			eachPoint(envelope.Box{{Symbol: "N", Lo: band.Lo, Hi: band.Hi}}, func(env symbolic.Env) {
				q, err := planner.Make(m.Model, m.Types, planner.Options{Dims: env, Strategy: band.Plan.Saved()})
				require.NoError(t, err)
				require.LessOrEqual(t, q.Persistent+q.Arena.Bytes, budget.Total, "seed %d at %v", seed, env)
			})
		}
		require.InDelta(t, 1, shares, 1e-9)
		require.LessOrEqual(t, b.Single, b.One+1e-12)
		if len(b.List) > 1 {
			several++
			require.Less(t, b.Overhead, b.One, "seed %d", seed)
		}
		if b.Beyond > 0 {
			beyond++
			require.Equal(t, h.Range().Hi, b.Longest)
			require.GreaterOrEqual(t, b.Most, b.List[len(b.List)-1].Plan.Span.Most)
		} else {
			require.Zero(t, b.Longest)
			require.Zero(t, b.Most)
		}
	}
	require.Greater(t, found, 12)
	require.Greater(t, several, 3)
	require.Greater(t, beyond, 3)
}

// TestMakeBandsPicks: the ends of bands are those with the least expected time of all choices among the ends, by
// enumeration of a step whose longer sizes alone recompute.
func TestMakeBandsPicks(t *testing.T) {
	m, err := memopt.Example("mlp", memopt.Options{})
	require.NoError(t, err)
	h, err := planner.NewHistogram("batch", []planner.Length{{512, 60}, {1024, 30}, {2048, 8}, {4096, 2}})
	require.NoError(t, err)
	o := planner.Options{Strategy: planner.Budget{Total: 700 << 20}}
	one, err := planner.MakeBands(t.Context(), m.Model, m.Types, o, h, 1, 1)
	require.NoError(t, err)
	require.Len(t, one.List, 1)
	require.InDelta(t, one.One, one.Overhead, 2e-3)
	two, err := planner.MakeBands(t.Context(), m.Model, m.Types, o, h, 2, 1)
	require.NoError(t, err)
	require.Len(t, two.List, 2)
	require.Equal(t, int64(2048), two.List[0].Hi) // all but the longest fit as they are
	require.Zero(t, two.List[0].Overhead)
	require.Less(t, two.Overhead, one.Overhead/2)
	many, err := planner.MakeBands(t.Context(), m.Model, m.Types, o, h, 5, 1)
	require.NoError(t, err)
	require.Len(t, many.List, 2, "no plan more than those that save time")
	most, err := planner.MakeBands(t.Context(), m.Model, m.Types, o, h, 5, 0.98)
	require.NoError(t, err)
	require.Len(t, most.List, 1)
	require.Zero(t, most.Overhead)
	require.InDelta(t, 0.02, most.Beyond, 1e-12)
	require.Equal(t, int64(4096), most.Longest)
	require.Greater(t, most.Most, int64(700<<20))
	for _, n := range []int{0, -1} {
		_, err = planner.MakeBands(t.Context(), m.Model, m.Types, o, h, n, 1)
		require.ErrorContains(t, err, "wanted 1 or more")
	}
	for _, q := range []float64{0, 1.5, math.NaN()} {
		_, err = planner.MakeBands(t.Context(), m.Model, m.Types, o, h, 1, q)
		require.ErrorContains(t, err, "a share above 0")
	}
	_, err = planner.MakeBands(t.Context(), m.Model, m.Types, planner.Options{}, h, 1, 1)
	require.ErrorContains(t, err, "keeps within a number of bytes")
	small := planner.Options{Strategy: planner.Budget{Total: 1 << 20}}
	_, err = planner.MakeBands(t.Context(), m.Model, m.Types, small, h, 1, 1)
	require.ErrorIs(t, err, planner.ErrInfeasible)
	require.ErrorContains(t, err, "at batch=4096")
}

// TestHistogram: equal sizes are one, weights become shares, and quantiles are the first sizes that reach them.
func TestHistogram(t *testing.T) {
	h, err := planner.NewHistogram("seq", []planner.Length{{8, 1}, {2, 2}, {8, 4}, {5, 0}, {16, 1}})
	require.NoError(t, err)
	require.Equal(t, []planner.Length{{2, 0.25}, {8, 0.625}, {16, 0.125}}, h.Lengths)
	for share, want := range map[float64]int64{0.1: 2, 0.25: 2, 0.26: 8, 0.875: 8, 0.88: 16, 1: 16} {
		require.Equal(t, want, h.Quantile(share), share)
	}
	require.Equal(t, symbolic.Range{Lo: 2, Hi: 16}, h.Range())
	for text, bad := range map[string][]planner.Length{
		"seq=-1: wanted sizes of 0 or more":      {{-1, 1}},
		"the weight of seq=3 is -2":              {{3, -2}},
		"the weight of seq=3 is NaN":             {{3, math.NaN()}},
		"the weight of seq=3 is +Inf":            {{3, math.Inf(1)}},
		"the weights of seq add up to 0":         {{3, 0}},
		"the weights of seq add up to +Inf":      {{3, math.MaxFloat64}, {4, math.MaxFloat64}},
		"1048577 sizes of seq: wanted at most 1": make([]planner.Length, 1<<20+1),
	} {
		_, err := planner.NewHistogram("seq", bad)
		require.ErrorContains(t, err, text)
	}
	_, err = planner.NewHistogram("seq", nil)
	require.ErrorContains(t, err, "add up to 0")
	u := planner.Uniform("seq", symbolic.Range{Lo: 3, Hi: 6})
	require.Equal(t, []planner.Length{{3, 0.25}, {4, 0.25}, {5, 0.25}, {6, 0.25}}, u.Lengths)
	require.Equal(t, []planner.Length{{7, 1}}, planner.Uniform("seq", symbolic.Range{Lo: 7, Hi: 7}).Lengths)
	wide := planner.Uniform("seq", symbolic.Range{Lo: 1, Hi: 1 << 40})
	require.Len(t, wide.Lengths, 4096)
	require.Equal(t, symbolic.Range{Lo: 1, Hi: 1 << 40}, wide.Range())
}
