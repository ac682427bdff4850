package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRuntimeBest takes the cheapest of the plans that were simulated and stay within the limit, of equal ones that with the smaller arena there.
func TestRuntimeBest(t *testing.T) {
	points := []point{{cost: 0}, {cost: 9}, {cost: 5}, {cost: 5}, {cost: 3}, {cost: 1}}
	judged := []*Anchoring{{AnchoredArena: 101}, {AnchoredArena: 40}, {AnchoredArena: 80}, {AnchoredArena: 70}, nil, {AnchoredArena: 100}}
	for limit, want := range map[int64]int{39: -1, 40: 1, 69: 1, 70: 3, 99: 3, 100: 5, 101: 0} {
		r := &runtimeFit{budgeter: &budgeter{points: points}, judged: judged, limit: limit}
		require.Equal(t, want, r.best(), "limit %d", limit)
	}
}

// TestHalve looks for the highest budget that is low enough, in a limited number of steps, and in none where no effort is allowed.
func TestHalve(t *testing.T) {
	for _, c := range []struct{ low, work, steps int64 }{{64 << 10, 1, runtimeHalving}, {0, 1, runtimeHalving}, {1 << 20, 1, runtimeHalving}, {64 << 10, 0, 0}} {
		var asked []int64
		h := &halving{fits: 0, above: 1 << 20, try: func(budget, work int64) (bool, error) {
			asked = append(asked, budget)
			return budget <= c.low, nil
		}}
		require.NoError(t, h.run(t.Context(), c.work))
		require.Len(t, asked, int(c.steps))
		require.LessOrEqual(t, h.fits, max(c.low, 0))
		if c.steps > 0 {
			require.EqualValues(t, 0, asked[0], "the one that is low enough, with more effort")
			require.LessOrEqual(t, min(c.low, h.above)-h.fits, int64(1<<20>>(runtimeHalving-2)))
		}
	}
}
