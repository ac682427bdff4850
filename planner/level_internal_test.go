package planner

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpacings: huge graphs try fewer of the distances, over the same range; others try all.
func TestSpacings(t *testing.T) {
	require.Equal(t, checkpointSpacings, spacings(manyNodes-1))
	few := spacings(manyNodes)
	require.Less(t, len(few), len(checkpointSpacings)/2)
	require.Equal(t, slices.Max(checkpointSpacings), slices.Max(few))
	require.True(t, slices.IsSorted(few))
	for _, every := range few {
		require.Contains(t, checkpointSpacings, every)
	}
}
