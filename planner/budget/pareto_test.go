package budget

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestByHalves: every budget comes once, and however few are taken, between two neighbours lie at most
// twice as many as if these were spread evenly.
func TestByHalves(t *testing.T) {
	require.Empty(t, byHalves(nil))
	for n := 1; n < 70; n++ {
		budgets := make([]int64, n)
		for i := range budgets {
			budgets[i] = int64(i)
		}
		order := byHalves(budgets)
		require.ElementsMatch(t, budgets, order)
		for taken := 1; taken < n; taken++ {
			first := slices.Sorted(slices.Values(append([]int64{0, int64(n)}, order[:taken]...)))
			for i := range first[1:] {
				require.LessOrEqual(t, first[i+1]-first[i], int64(4*n/(taken+1)+1), "%d of %d: %v", taken, n, first)
			}
		}
	}
}

// TestSpread: budgets rise by equal distances.
func TestSpread(t *testing.T) {
	require.Equal(t, []int64{10, 15, 20, 25, 30}, spread(10, 30, 5))
	require.Equal(t, []int64{30}, spread(10, 30, 1))
	require.Equal(t, []int64{10, 30}, spread(10, 30, 2))
}
