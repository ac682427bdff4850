package remat

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// raisers prepares a bound of several moments; nil where one moment gives no bound.
func raisers(t *testing.T, g *Graph, budget int64, rate float64) *raiser {
	b := newBounder(t.Context(), newMoments(g), budget, 0)
	b.link, b.cut.move = newCarried(g, rate), true
	b.run()
	if b.best == math.MaxInt64 || b.alone.extra <= 0 {
		return nil
	}
	return &raiser{bounder: b, end: math.MaxInt64, unit: b.alone.price}
}

// TestSeveralMomentsAreBelow compares the bounds of all pairs and triples of moments with all lists of extra runs, on
// a link that carries almost no byte, and that of the moments which are looked for.
func TestSeveralMomentsAreBelow(t *testing.T) {
	higher := 0
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g, budget := graphsWithParts(t, rng, 5)
		const rate = 1e-9
		cost := int64(math.MaxInt64)
		eachExtras(g, func(extras []Extra) {
			if c, peak := sharedPeak(t, g, extras); peak <= budget {
				cost = min(cost, c)
			}
		})
		low := g.MovedSum(t.Context(), budget, rate, math.MaxInt64/4)
		require.LessOrEqual(t, low, cost, "seed %d", seed)
		r := raisers(t, g, budget, rate)
		if r == nil {
			continue
		}
		single := r.alone.extra
		var try func(times []int32, next int32)
		try = func(times []int32, next int32) {
			if len(times) > 1 {
				prices := make([]float64, len(times))
				for i := range prices {
					prices[i] = r.unit * rng.Float64()
				}
				proved := r.raise(append([]int32{}, times...), prices, firstWidth).proved
				require.LessOrEqual(t, proved, cost, "seed %d, moments %v", seed, times)
				if proved > single {
					higher++
				}
			}
			for at := next; at < int32(r.n); at++ {
				try(append(times[:len(times):len(times)], at), at+1)
			}
		}
		try(nil, 0)
	}
	require.Greater(t, higher, 10, "sets of moments that prove more than one")
}
