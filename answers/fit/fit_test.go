package fit_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/fit"
	"memopt/configs"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/planner/device"
	"memopt/symbolic"
)

// planAt plans a model at a size.
func planAt(t require.TestingT, m *memopt.Model, env symbolic.Env, s planner.Strategy) (*planner.Plan, int64) {
	p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: env, Strategy: s})
	require.NoError(t, err)
	return p, p.Persistent + p.Arena.Bytes
}

// TestLargest holds the largest sizes of random graphs to plans at every size.
func TestLargest(t *testing.T) {
	const most = 20
	for seed := range uint64(25) {
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 3))
		m, err := memopt.New(graphtest.Training(rng, graphtest.Options{Nodes: 10 + rng.IntN(70),
			Symbolic: true, Width: []int64{1, 16, 64}[seed%3], Yield: true}), memopt.Options{})
		require.NoError(t, err)
		_, low := planAt(t, m, symbolic.Env{"N": 1}, nil)
		_, high := planAt(t, m, symbolic.Env{"N": most}, nil)
		limit := low*9/10 + rng.Int64N(high+high/10-low*9/10)
		r, err := fit.Largest(t.Context(), m, fit.Options{Vary: []string{"N"}, Limit: limit, MaxOverhead: 0.3,
			Effort: 0.001, Ranges: map[string]symbolic.Range{"N": {Lo: 1, Hi: most}}})
		require.NoError(t, err)
		checkScan(t, m, &r.Sizes.By[fit.Plain], nil, limit, most)
		checkScan(t, m, &r.Sizes.By[fit.Level1], planner.Layerwise, limit, most)

		best := &r.Sizes.By[fit.Best]
		require.GreaterOrEqual(t, best.Value, r.Sizes.By[fit.Plain].Value)
		if best.Value == 0 {
			if r.Sizes.By[fit.Level1].Value == 0 {
				require.ErrorIs(t, r.Fits(), fit.ErrNothing)
			}
			continue
		}
		require.NoError(t, r.Fits())
		p, total := planAt(t, m, symbolic.Env{"N": best.Value},
			&planner.PlanFile{Placements: best.Plan.Placements, Order: best.Plan.Analysis.Order})
		require.Equal(t, total, best.Total)
		require.LessOrEqual(t, total, limit)
		require.LessOrEqual(t, p.Overhead, 0.3)
	}
}

// checkScan holds an answer to plans at every size from 1 on.
func checkScan(t *testing.T, m *memopt.Model, s *fit.Size, strategy planner.Strategy, limit, most int64) {
	fits := make([]bool, most+2)
	rising, last := true, int64(0)
	for n := int64(1); n <= most; n++ {
		_, total := planAt(t, m, symbolic.Env{"N": n}, strategy)
		fits[n] = total <= limit
		rising, last = rising && total >= last, total
		if n == s.Value {
			require.Equal(t, total, s.Total)
		}
	}
	require.False(t, fits[s.Value+1], "%d fits, too", s.Value+1)
	if s.Value > 0 {
		require.True(t, fits[s.Value])
	}
	if s.Proved && strategy == nil && rising {
		for n := int64(1); n <= s.Value; n++ {
			require.True(t, fits[n], "%d does not fit", n)
		}
	}
	require.Equal(t, s.Value == most, s.Unlimited)
}

// TestFrontier: with more of the first symbol there is no more room for the second.
func TestFrontier(t *testing.T) {
	m, err := memopt.Example("transformer", memopt.Options{})
	require.NoError(t, err)
	r, err := fit.Largest(t.Context(), m, fit.Options{Vary: []string{"batch", "seq"}, Limit: 2 << 30, MaxOverhead: 0.2,
		Ranges: map[string]symbolic.Range{"batch": {Lo: 1, Hi: 8}, "seq": {Lo: 16, Hi: 1024}}})
	require.NoError(t, err)
	require.Len(t, r.Frontier, 4)
	for i, s := range r.Frontier {
		require.Equal(t, symbolic.Env{"batch": 1 << i}, s.Fixed)
		plain := &s.By[fit.Plain]
		_, total := planAt(t, m, symbolic.Env{"batch": 1 << i, "seq": plain.Value}, nil)
		require.LessOrEqual(t, total, int64(2<<30))
		if !plain.Unlimited {
			_, total = planAt(t, m, symbolic.Env{"batch": 1 << i, "seq": plain.Value + 1}, nil)
			require.Greater(t, total, int64(2<<30))
		}
		if i > 0 {
			require.LessOrEqual(t, plain.Value, r.Frontier[i-1].By[fit.Plain].Value)
		}
	}
}

// TestOnDevices: the smallest device is one that the step fits, and the next smaller one is not.
func TestOnDevices(t *testing.T) {
	m, err := memopt.Example("transformer", memopt.Options{Dims: map[string]int64{"batch": 64}})
	require.NoError(t, err)
	var profiles []*device.Profile
	for _, name := range []string{"a10", "rtx3060-12g", "h100", "cpu"} {
		p, err := configs.LoadDevice(name)
		require.NoError(t, err)
		profiles = append(profiles, p)
	}
	d, err := fit.OnDevices(t.Context(), m, profiles, fit.Options{MaxOverhead: 0.2})
	require.NoError(t, err)
	require.Len(t, d.List, 3, "a CPU's profile has no memory")
	_, total := planAt(t, m, m.Dims, nil)
	require.Equal(t, "a10", d.Smallest(fit.Plain).Profile.Name)
	require.LessOrEqual(t, total, d.Smallest(fit.Plain).Limit)
	require.Equal(t, "rtx3060-12g", d.Smallest(fit.Best).Profile.Name)
	best := d.List[0].By[fit.Best]
	require.LessOrEqual(t, best.Total, d.List[0].Limit)
	require.Greater(t, best.Overhead, 0.0)
	require.False(t, d.List[0].By[fit.Plain].Fits)
}

// TestLargestRefuses: options that make no sense are the caller's faults.
func TestLargestRefuses(t *testing.T) {
	m, err := memopt.Example("transformer", memopt.Options{})
	require.NoError(t, err)
	for name, o := range map[string]fit.Options{
		"no symbol": {Vary: []string{"bach"}, Limit: 1}, "nothing": {Limit: 1},
		"twice":    {Vary: []string{"seq", "seq"}, Limit: 1},
		"no limit": {Vary: []string{"seq"}}, "overhead": {Vary: []string{"seq"}, Limit: 1, MaxOverhead: -1},
	} {
		var fault *memopt.Error
		_, err := fit.Largest(t.Context(), m, o)
		require.ErrorAs(t, err, &fault, name)
		require.Equal(t, memopt.OfCaller, fault.Fault)
	}
	delete(m.Dims, "seq")
	var unbound *symbolic.UnboundError
	_, err = fit.Largest(t.Context(), m, fit.Options{Vary: []string{"batch"}, Limit: 1 << 30})
	require.ErrorAs(t, err, &unbound)
	require.Equal(t, []string{"seq"}, unbound.Symbols)
}
