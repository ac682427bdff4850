package fit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/fit"
	"memopt/planner/offload"
	"memopt/symbolic"
)

// TestMoves: where values may move, a larger size fits, with a plan that keeps within the limit, the host's budget and
// the overhead, as a plan to that budget confirms; without moves there is no such kind.
func TestMoves(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"seq": 64}})
	require.NoError(t, err)
	delete(m.Dims, "batch")
	o := fit.Options{Vary: []string{"batch"}, Limit: 24 << 20, MaxOverhead: 0.2, Effort: 0.01,
		Ranges: map[string]symbolic.Range{"batch": {Lo: 1, Hi: 24}}}
	without, err := fit.Largest(t.Context(), m, o)
	require.NoError(t, err)
	require.Zero(t, without.Sizes.By[fit.Moves])

	o.Moves = memopt.MoveOptions{Link: offload.Link{BytesPerSecond: 2e11}, HostBudget: 1 << 30}
	r, err := fit.Largest(t.Context(), m, o)
	require.NoError(t, err)
	x, best := &r.Sizes.By[fit.Moves], r.Sizes.By[fit.Best].Value
	require.Equal(t, without.Sizes.By[fit.Best].Value, best)
	require.Greater(t, x.Value, best)
	require.NotNil(t, x.Moving)
	require.LessOrEqual(t, x.Total, o.Limit)
	require.Equal(t, x.Moving.Arena+x.Moving.Persistent, x.Total)
	require.LessOrEqual(t, x.Moving.HostArena, o.Moves.HostBudget)
	require.LessOrEqual(t, x.Moving.Overhead, o.MaxOverhead)
	require.Equal(t, x.Value, x.Moving.Plan.Of.Dims["batch"])
	require.False(t, x.Proved)
	require.Contains(t, r.Answer(&fit.Target{Memory: o.Limit}), "moves values to the host")

	// A host budget too small for any value leaves the answer of plans without moves.
	o.Moves.HostBudget = 1
	r, err = fit.Largest(t.Context(), m, o)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.Sizes.By[fit.Moves].Value, best)
	if p := r.Sizes.By[fit.Moves].Moving; p != nil {
		require.Zero(t, p.HostArena)
	}
}
