package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLowered: a budget that is lowered stays one, and the lack of a budget stays that.
func TestLowered(t *testing.T) {
	for _, c := range [][3]int64{{0, 5, 0}, {10, 3, 7}, {10, 10, 1}, {10, 25, 1}} {
		require.Equal(t, c[2], lowered(c[0], c[1]), "%d by %d", c[0], c[1])
	}
}
