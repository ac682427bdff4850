package budget

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/planner/anchor"
)

// TestRuntimeBest takes the cheapest of the plans that were simulated and stay within the limit, of
// equal ones that with the smaller arena there.
func TestRuntimeBest(t *testing.T) {
	points := []point{{cost: 0}, {cost: 9}, {cost: 5}, {cost: 5}, {cost: 3}, {cost: 1}}
	judged := []*anchor.Anchoring{{AnchoredArena: 101}, {AnchoredArena: 40}, {AnchoredArena: 80}, {AnchoredArena: 70},
		nil, {AnchoredArena: 100}}
	for limit, want := range map[int64]int{39: -1, 40: 1, 69: 1, 70: 3, 99: 3, 100: 5, 101: 0} {
		r := &runtimeFit{budgeter: &budgeter{points: points}, judged: judged, limit: limit}
		require.Equal(t, want, r.best(), "limit %d", limit)
	}
}

// TestHalve looks for the highest budget that is low enough, in a limited number of steps, and in
// none where no effort is allowed.
func TestHalve(t *testing.T) {
	const kib = 1 << 10
	for _, c := range []struct {
		low, work int64
		asked     []int64
		fits      int64
	}{
		{64 * kib, 1, []int64{0, 512 * kib, 256 * kib, 128 * kib, 64 * kib}, 64 * kib},
		{700 * kib, 1, []int64{0, 512 * kib, 768 * kib, 640 * kib, 704 * kib}, 640 * kib},
		{64 * kib, 0, nil, 0},
	} {
		var asked []int64
		h := &halving{fits: 0, above: 1024 * kib, try: func(budget, work int64) (bool, error) {
			require.Equal(t, c.work, work)
			asked = append(asked, budget)
			return budget <= c.low, nil
		}}
		require.NoError(t, h.run(t.Context(), c.work))
		require.Equal(t, c.asked, asked)
		require.Equal(t, c.fits, h.fits)
	}
}
