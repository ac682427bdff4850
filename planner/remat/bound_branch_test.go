package remat

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTighten: with enough work branching finds the cost of the cheapest choice of a moment, and
// with little something between the bound before and that.
func TestTighten(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	raised := 0
	for range 600 {
		g := randomGraph(rng, 2+rng.IntN(9))
		g.From = min(g.From, rng.Int32N(3))
		plain, err := g.Simulate(nil)
		require.NoError(t, err)
		b := newBounder(context.Background(), newMoments(g), plain.Peak/2+rng.Int64N(plain.Peak/2+1), 0)
		if b.run(); b.best == 0 || b.best == math.MaxInt64 {
			continue
		}
		want := cheapestChoice(b.moments, b.at, b.budget)
		some := b.tighten(b.best, rng.Int64N(1000))
		require.GreaterOrEqual(t, some, b.best)
		require.LessOrEqual(t, some, want)
		require.Equal(t, want, b.tighten(0, math.MaxInt64/4))
		if want > b.best {
			raised++
		}
	}
	require.Greater(t, raised, 5)
}
