package ort

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPassesAreInOrder: levels ascend, and no optimization comes before one that it needs.
func TestPassesAreInOrder(t *testing.T) {
	seen := map[string]bool{}
	last := basic
	for _, p := range passes {
		require.GreaterOrEqual(t, p.level, last, p.name)
		last = p.level
		for _, before := range p.after {
			require.True(t, seen[before], "%s stands in front of %s", p.name, before)
		}
		require.False(t, seen[p.name], p.name)
		require.NotEmpty(t, p.file, p.name)
		require.NotEmpty(t, p.why, p.name)
		seen[p.name] = true
	}
}
