package moduleplan

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// drawn is a chain whose terms are random numbers.
func drawn(rng *rand.Rand, units, options int) *chain {
	c := &chain{units: make([]unit, units), reach: make([][][]int64, units), kept: make([][][]int64, units)}
	for i := range c.units {
		for range options {
			c.units[i].options = append(c.units[i].options, option{seconds: rng.Float64()})
		}
		before := options
		if i == 0 {
			before = 1
		}
		for range before {
			c.reach[i] = append(c.reach[i], make([]int64, options))
			for o := range options {
				c.reach[i][len(c.reach[i])-1][o] = rng.Int64N(1 << 20)
			}
		}
		for range options {
			c.kept[i] = append(c.kept[i], make([]int64, options))
			for o := range options {
				c.kept[i][len(c.kept[i])-1][o] = rng.Int64N(1 << 20)
			}
		}
	}
	return c
}

// TestChain: the choice is the cheapest of all within the limit, by trying all.
func TestChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		c := drawn(rng, rapid.IntRange(1, 5).Draw(t, "units"), rapid.IntRange(1, 4).Draw(t, "options"))
		limit := rapid.Int64Range(0, 4<<20).Draw(t, "limit")
		cost := func(choice []int) (seconds float64, fits bool) {
			fits = true
			kept := int64(0)
			for i, o := range choice {
				before := 0
				if i > 0 {
					before = choice[i-1]
				}
				if i > 1 {
					kept += c.kept[i-2][choice[i-2]][choice[i-1]]
				}
				fits = fits && kept+c.reach[i][before][o] <= limit
				seconds += c.units[i].options[o].seconds
			}
			return seconds, fits
		}
		least := math.Inf(1)
		choice := make([]int, len(c.units))
		for {
			if seconds, fits := cost(choice); fits {
				least = min(least, seconds)
			}
			i := 0
			for ; i < len(choice); i++ {
				if choice[i]++; choice[i] < len(c.units[i].options) {
					break
				}
				choice[i] = 0
			}
			if i == len(choice) {
				break
			}
		}
		got, ok, err := c.solve(t.Context(), limit)
		require.NoError(t, err)
		require.Equal(t, !math.IsInf(least, 1), ok)
		if ok {
			seconds, fits := cost(got)
			require.True(t, fits)
			require.InDelta(t, least, seconds, 1e-12)
		}
	})
}

// TestChainEnds: a context that is done ends a search of many states, and none of few.
func TestChainEnds(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	rng := rand.New(rand.NewPCG(7, 7))
	_, ok, err := drawn(rng, 3, 4).solve(done, math.MaxInt64/2)
	require.NoError(t, err)
	require.True(t, ok)
	_, ok, err = drawn(rng, 200, 12).solve(done, math.MaxInt64/2)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, ok)
}
