package remat

import (
	"math"
	"math/rand/v2"
	"slices"
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

// leastDelay is the least time that a schedule takes beyond the first runs, of all lists of extra runs and waits at the
// start: at the first run of each task, a link has carried the bytes beyond the budget in the time before it.
func leastDelay(t *testing.T, g *Graph, budget int64, rate float64) (least float64) {
	least = math.Inf(1)
	eachExtras(g, func(extras []Extra) {
		cost, runs, bytes := sharedBytes(t, g, extras)
		wait, before := 0.0, 0.0
		for i, r := range runs {
			if !r.Extra {
				wait = max(wait, float64(bytes[i]-budget)/rate-before)
			}
			before += float64(g.Tasks[r.Task].Cost)
		}
		least = min(least, float64(cost)+wait)
	})
	return least
}

// TestSeveralMomentsAreBelow compares the bounds of all sets of two and more moments, and that of the moments which are
// looked for, with all lists of extra runs: on links that carry almost no byte, and up to all in the time of a step.
func TestSeveralMomentsAreBelow(t *testing.T) {
	higher := 0
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g, budget := graphsWithParts(t, rng, 5)
		rate, step := 1e-9, int64(0)
		for x := range g.Tasks {
			g.Tasks[x].Cost *= 1000 // bounds are whole, and waits are not
			step += g.Tasks[x].Cost
		}
		if rng.IntN(3) > 0 {
			rate += rng.Float64() * float64(budget) / float64(max(1, step))
		}
		least := math.Ceil(leastDelay(t, g, budget, rate) - 1e-6)
		low := g.MovedSum(t.Context(), budget, rate, math.MaxInt64/4)
		require.LessOrEqual(t, float64(low), least, "seed %d", seed)
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
				set := momentSet{times: slices.Clone(times), prices: prices}
				proved := r.raise(set, firstWidth, mostCuts).proved
				require.LessOrEqual(t, float64(proved), least, "seed %d, moments %v", seed, times)
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
	require.Greater(t, higher, 30, "sets of moments that prove more than one")
}

// TestSeveralMomentsAreFound compares the bound of the moments that are looked for with that of all pairs.
func TestSeveralMomentsAreFound(t *testing.T) {
	pairs, found, more := 0, 0, 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		g := randomTraining(rng, 8)
		out, err := g.Simulate(nil)
		require.NoError(t, err)
		budget, cost := out.Peak*int64(3+rng.IntN(4))/10, int64(0)
		for _, task := range g.Tasks {
			cost += task.Cost
		}
		rate := float64(out.Peak) / float64(cost) * rng.Float64()
		r := raisers(t, g, budget, rate)
		if r == nil {
			continue
		}
		single, best := r.alone.extra, int64(0)
		for a := range int32(r.n) {
			for b := range a {
				set := momentSet{times: []int32{b, a}, prices: []float64{r.unit / 2, r.unit / 2}}
				best = max(best, r.raise(set, firstWidth, mostCuts).proved)
			}
		}
		if float64(best) < 1.01*float64(single) {
			continue
		}
		pairs++
		low := g.MovedSum(t.Context(), budget, rate, math.MaxInt64/4)
		if float64(low) >= 0.999*float64(best) {
			found++
		}
		if float64(low) > 1.001*float64(best) {
			more++
		}
	}
	require.GreaterOrEqual(t, 10*found, 9*pairs, "searches that find as much as the best of %d pairs", pairs)
	require.GreaterOrEqual(t, more, 3)
}
