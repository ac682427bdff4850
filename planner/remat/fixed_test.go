package remat

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fixSome draws extra runs that every answer must have.
func fixSome(g *Graph, rng *rand.Rand, n int) {
	l := newLedger(g)
	for range n {
		x, stage, ok := randomRun(l, rng)
		if ok && !slices.ContainsFunc(g.Fixed, func(e Extra) bool { return e.Task == x }) {
			g.Fixed = append(g.Fixed, Extra{x, stage})
		}
	}
}

func requireFixed(t require.TestingT, g *Graph, extras []Extra) {
	for _, x := range g.Fixed {
		require.Contains(t, extras, x)
	}
}

// TestFixedAgainstOracle compares answers with those of all lists that have the fixed runs; what is
// proved of lists of all kinds holds for these, too.
func TestFixedAgainstOracle(t *testing.T) {
	found, missed, dear, drawn := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		g := randomGraph(rng, rapid.IntRange(2, 5).Draw(t, "n"))
		fixSome(g, rng, 1+rng.IntN(6))
		drawn += len(g.Fixed)
		s := NewSearch(g, 1)
		budget := g.Need() + rng.Int64N(s.d.peak()-g.Need()+2)
		cost, peak := cheapestExtras(t, g, budget)
		require.LessOrEqual(t, g.CostBound(context.Background(), budget, 0), cost)
		a, err := s.Fit(context.Background(), budget, 20_000)
		if err != nil {
			var no *InfeasibleError
			require.ErrorAs(t, err, &no)
			require.GreaterOrEqual(t, no.LowestPeak, peak)
			if cost != math.MaxInt64 {
				missed++
			}
			return
		}
		requireAnswer(t, g, a, budget)
		requireFixed(t, g, a.Extras)
		require.LessOrEqual(t, cost, a.Cost)
		if found++; cost < a.Cost {
			dear++
		}
	})
	t.Logf("%d fixed, %d found, %d missed, %d dearer than needed", drawn, found, missed, dear)
	require.Less(t, 20*(missed+dear), found+20)
	require.Positive(t, drawn)
}

// TestFixedStay: whatever a search does in larger graphs, fixed runs stay, and a search ends where
// nothing but them is left to take out.
func TestFixedStay(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g := layeredGraph(80, 5, seed)
		fixSome(g, rng, 25)
		require.Greater(t, len(g.Fixed), 5)
		s := NewSearch(g, 7)
		plain := s.d.peak()
		a, err := s.Fit(context.Background(), plain, 50_000)
		require.NoError(t, err)
		require.ElementsMatch(t, g.Fixed, a.Extras, "nothing else needs to run")
		require.NoError(t, s.Add(nil, "nothing"))
		low, err := s.Lowest(context.Background(), 200_000)
		require.NoError(t, err)
		require.Less(t, low.Peak, plain)
		for _, part := range []float64{0.95, 0.8, 0.7} {
			budget := max(low.Peak, int64(part*float64(plain)))
			a, err := s.Fit(context.Background(), budget, 200_000)
			require.NoError(t, err)
			requireAnswer(t, g, a, budget)
			requireFixed(t, g, a.Extras)
			requireLedger(t, s.d.ledger)
			requireFixed(t, g, s.d.extras)
		}
	}
}
