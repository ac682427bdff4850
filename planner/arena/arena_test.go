package arena_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/arena"
)

// A layout is valid, no worse than the quick one, and better where the quick one gives up early.
func TestLayoutsOfDrawnTimelines(t *testing.T) {
	better := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 17))
		n := 40 + rng.IntN(200)
		tl, bytes := &live.Timeline{}, make([]int64, n)
		for i := range n {
			start := rng.IntN(2 * n)
			tl.Root = append(tl.Root, graph.ValueID(i))
			tl.Ranges = append(tl.Ranges, live.Range{Start: int32(start), End: int32(start + 1 + rng.IntN(n/2))})
			bytes[i] = 1 + rng.Int64N(1<<uint(8+rng.IntN(8)))
		}
		quick, whole := arena.QuickLayout(t.Context(), tl, bytes), arena.NewLayout(t.Context(), tl, bytes)
		require.LessOrEqual(t, whole.Bytes, quick.Bytes, "seed %d", seed)
		if whole.Bytes < quick.Bytes {
			better++
		}
		for _, l := range []*arena.Layout{quick, whole} {
			require.Greater(t, l.Bytes, l.LowerBound-arena.Alignment, "seed %d", seed)
			for i := range n {
				for j := range i {
					apart := tl.Ranges[i].End <= tl.Ranges[j].Start || tl.Ranges[j].End <= tl.Ranges[i].Start ||
						l.Offsets[i]+bytes[i] <= l.Offsets[j] || l.Offsets[j]+bytes[j] <= l.Offsets[i]
					require.True(t, apart, "seed %d: %d and %d", seed, i, j)
				}
			}
		}
	}
	require.Greater(t, better, 0)
	t.Logf("%d of 60 layouts are better", better)
}

// TestFirstLayout: of many buffers the first arena that is small enough is taken, of few the same as a quick one.
func TestFirstLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 18))
	for _, n := range []int{300, 1500} {
		tl, bytes := &live.Timeline{Hidden: 1000, Inside: 24}, make([]int64, n)
		for i := range n {
			start := rng.IntN(2 * n)
			tl.Root = append(tl.Root, graph.ValueID(i))
			tl.Ranges = append(tl.Ranges, live.Range{Start: int32(start), End: int32(start + 1 + rng.IntN(n/4))})
			bytes[i] = 1 + rng.Int64N(4096)
		}
		least := arena.FirstLayout(t.Context(), tl, bytes, 0)
		most := arena.FirstLayout(t.Context(), tl, bytes, 1<<40)
		require.LessOrEqual(t, least.LowerBound-arena.Alignment, least.Bytes)
		if n == 300 {
			require.Equal(t, arena.QuickLayout(t.Context(), tl, bytes).Bytes, least.Bytes)
			require.Equal(t, least.Bytes, most.Bytes)
			continue
		}
		require.Less(t, least.Bytes, most.Bytes)
		same := arena.FirstLayout(t.Context(), tl, bytes, most.Bytes+arena.Alignment)
		require.Equal(t, most.Bytes, same.Bytes, "memory besides values counts")
		require.Less(t, arena.FirstLayout(t.Context(), tl, bytes, most.Bytes-1024).Bytes, most.Bytes)
	}
}

// TestFinal: of more buffers than an exact search is tried with, both layouts are the same, and the quick one
// says so unless its context had ended.
func TestFinal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 18))
	drawn := func(n int) (*live.Timeline, []int64) {
		tl, bytes := &live.Timeline{}, make([]int64, n)
		for i := range n {
			start := rng.IntN(2 * n)
			tl.Root = append(tl.Root, graph.ValueID(i))
			tl.Ranges = append(tl.Ranges, live.Range{Start: int32(start), End: int32(start + 1 + rng.IntN(40))})
			bytes[i] = 1 + rng.Int64N(4096)
		}
		return tl, bytes
	}
	tl, bytes := drawn(2100)
	quick := arena.QuickLayout(t.Context(), tl, bytes)
	require.True(t, quick.Final)
	require.Equal(t, arena.NewLayout(t.Context(), tl, bytes), quick)
	ended, end := context.WithCancel(t.Context())
	end()
	require.False(t, arena.QuickLayout(ended, tl, bytes).Final)
	tl, bytes = drawn(1500)
	require.False(t, arena.QuickLayout(t.Context(), tl, bytes).Final, "the other is searched exactly")
}
