package remat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// graphsWithParts draws a small graph whose values may be parts, and a budget.
func graphsWithParts(t require.TestingT, rng *rand.Rand, most int) (g *Graph, budget int64) {
	g = randomGraph(rng, 3+rng.IntN(most-2))
	if rng.IntN(2) == 0 {
		g.From = 0
	}
	out, err := g.Simulate(nil)
	require.NoError(t, err)
	taken := make([]bool, len(g.Values)) // a part, or joined of parts
	for j := range g.Tasks {
		join := &g.Tasks[j]
		if len(join.Makes) != 1 || len(join.Uses) == 0 || taken[join.Makes[0]] {
			continue
		}
		whole := join.Makes[0]
		left := g.Values[whole].Size
		for _, u := range join.Uses {
			v := &g.Values[u]
			if !taken[u] && v.Size > 0 && v.Size <= left && rng.IntN(4) > 0 {
				v.Part, v.Join, taken[u], taken[whole] = v.Size, int32(j), true, true
				left -= v.Size
				v.Size = 0
			}
		}
		join.InPlace = nil
	}
	return g, out.Peak/3 + rng.Int64N(1+out.Peak-out.Peak/3)
}

// sharedPeak is the peak of a list of extra runs where parts have bytes only while no whole of theirs is there.
func sharedPeak(t require.TestingT, g *Graph, extras []Extra) (cost, peak int64) {
	cost, _, bytes := sharedBytes(t, g, extras)
	return cost, slices.Max(bytes)
}

// sharedBytes are the runs with a list of extra ones, and the bytes during each where parts have bytes only while no
// whole of theirs is there.
func sharedBytes(t require.TestingT, g *Graph, extras []Extra) (cost int64, runs []Run, bytes []int64) {
	out, err := g.Simulate(extras)
	require.NoError(t, err)
	runs = g.Runs(SortExtras(slices.Clone(extras)))
	last := g.lastReads(runs)
	live := make([][]int64, len(g.Values)) // by value and run: its outputs that are live
	end := make([]int32, len(g.Values))    // by value: that of the newest output
	for v := range live {
		live[v] = make([]int64, len(runs))
	}
	taken := make([]bool, len(runs)) // the run writes its output over an input
	own := make([]bool, len(runs))   // which has bytes of its own
	for i, r := range runs {
		task := &g.Tasks[r.Task]
		for _, u := range task.InPlace {
			if end[u] == int32(i) && !taken[i] {
				taken[i] = true
				if v := &g.Values[u]; v.Part > 0 && v.Keep { // a second output, which has its own bytes
					out.Live[i] += g.Values[task.Makes[0]].Size
					own[i] = true
				}
			}
		}
		for slot, v := range task.Makes {
			if end[v] = last[i][slot]; g.Values[v].Keep && !r.Extra {
				end[v] = int32(len(runs))
			}
			for k := i; k < len(runs) && int32(k) <= end[v]; k++ {
				live[v][k]++
			}
		}
	}
	for i, r := range runs {
		sum := out.Live[i]
		for v := range g.Values {
			value := &g.Values[v]
			if value.Part == 0 || live[g.Tasks[value.Join].Makes[0]][i] > 0 {
				continue
			}
			sum += value.Part * live[v][i]
			if taken[i] && !own[i] && g.Tasks[r.Task].Makes[0] == int32(v) {
				sum -= value.Part
			}
		}
		bytes = append(bytes, sum)
	}
	return out.Cost, runs, bytes
}

// TestPartsBoundIsBelow compares bounds of graphs with parts with all lists of extra runs.
func TestPartsBoundIsBelow(t *testing.T) {
	met, higher := 0, 0
	for seed := range uint64(1000) {
		g, budget := graphsWithParts(t, rand.New(rand.NewPCG(seed, 7)), 5)
		cost, lowest := int64(math.MaxInt64), int64(math.MaxInt64)
		eachExtras(g, func(extras []Extra) {
			c, peak := sharedPeak(t, g, extras)
			if lowest = min(lowest, peak); peak <= budget {
				cost = min(cost, c)
			}
		})
		low := g.CostBound(t.Context(), budget, 0)
		require.LessOrEqual(t, low, cost, "seed %d", seed)
		require.LessOrEqual(t, g.PeakBound(t.Context(), 0), lowest, "seed %d", seed)
		if low == cost && 0 < low && low < math.MaxInt64 {
			met++
		}
		without := *g
		without.Values = slices.Clone(g.Values)
		for v := range without.Values {
			without.Values[v].Part = 0
		}
		if before := without.CostBound(t.Context(), budget, 0); before < low {
			higher++
		} else {
			require.Equal(t, before, low, "seed %d", seed)
		}
	}
	require.Greater(t, met, 10, "bounds that a list of extra runs meets")
	require.Greater(t, higher, 10, "bounds that parts make higher")
}

// TestPartsMoment: for one moment of a graph with parts, the bound is no more than the cheapest choice, found by
// trying all; see TestMomentBound.
func TestPartsMoment(t *testing.T) {
	for seed := range uint64(300) {
		g, budget := graphsWithParts(t, rand.New(rand.NewPCG(seed, 8)), 10)
		m := newMoments(g)
		b := newBounder(t.Context(), m, budget, 0)
		b.run()
		want := int64(0)
		for at := range int32(m.n) {
			want = max(want, cheapestChoice(m, at, budget))
		}
		require.LessOrEqual(t, b.best, want)
		bytes, costs := make([]int64, m.n), make([]int64, m.n)
		for at := range int32(m.n) {
			c, full := b.cut.smallest(at, math.MaxInt64)
			require.True(t, full)
			m.profile(b.cut.again, bytes, costs)
			require.Equal(t, c.bytes, bytes[at], "the cut and the walk count the same bytes at %d, seed %d", at, seed)
		}
	}
}
