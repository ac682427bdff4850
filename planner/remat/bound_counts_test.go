package remat

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCounted: a bound by counts is no less than that of its price and no more than the cheapest choice.
func TestCounted(t *testing.T) {
	rng, raised, met := rand.New(rand.NewPCG(9, 1)), 0, 0
	for range 1500 {
		g := repeated(rng, 1+rng.IntN(3), rng.IntN(4))
		if rng.IntN(2) == 0 {
			g = randomGraph(rng, 2+rng.IntN(12))
		}
		plain, err := g.Simulate(nil)
		require.NoError(t, err)
		b := newBounder(context.Background(), newMoments(g), plain.Peak/2+rng.Int64N(plain.Peak/2+1), 0)
		if b.run(); b.best == 0 || b.best == math.MaxInt64 || b.alone.t > 14 {
			continue
		}
		want := cheapestChoice(b.moments, b.alone.t, b.budget)
		proved, _, _ := b.cut.price(b.alone.t, b.alone.price, b.budget, math.MaxInt64)
		for _, more := range []int64{1, 3, 10, 100} {
			got := b.counted(b.alone, b.best+more)
			require.GreaterOrEqual(t, got, min(proved, b.best+more))
			require.LessOrEqual(t, got, want)
			require.LessOrEqual(t, got, b.best+more)
			if got > proved {
				raised++
			}
			if got == want && want > proved {
				met++
			}
		}
	}
	t.Logf("%d bounds are raised, %d of them to the cheapest choice", raised, met)
	require.Greater(t, raised, 100)
}
