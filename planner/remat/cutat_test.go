package remat

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCutAt: a cut that fits is found where the cheapest bytes fit, holds no more than allowed, and
// is not dearer than running all again.
func TestCutAt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, _ := graphs(t, 7)
		at := rapid.Int32Range(0, int32(len(g.Tasks))-1).Draw(t, "t")
		m := newMoments(g)
		least, _ := newMomentCut(m).smallest(at, 1<<40)
		bytes := rapid.Int64Range(0, 60).Draw(t, "bytes")
		tasks, ok := g.CutAt(at, bytes)
		require.Equal(t, least.bytes <= bytes, ok)
		if !ok {
			return
		}
		again := make([]bool, len(g.Tasks))
		cost := int64(0)
		for _, x := range tasks {
			require.False(t, g.Tasks[x].Once)
			require.Less(t, x, at)
			again[x] = true
			cost += g.Tasks[x].Cost
		}
		held, costs := make([]int64, len(g.Tasks)), make([]int64, len(g.Tasks))
		m.profile(again, held, costs)
		require.LessOrEqual(t, held[at], bytes)
		require.LessOrEqual(t, costs[at], cost)
	})
}
