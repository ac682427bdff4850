package arena

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/planner/pack"
)

// TestStacked: buffers whose sizes add up to more than int64 holds lie one on top of the other, up to
// that limit.
func TestStacked(t *testing.T) {
	const half = math.MaxInt64/2 + 1
	buffers := []pack.Buffer{{Lower: 0, Upper: 1, Size: 10}, {Lower: 0, Upper: 1, Size: half},
		{Lower: 1, Upper: 2, Size: half}, {Lower: 1, Upper: 2, Size: 3}}
	r := packed(context.Background(), buffers, 100, func(int) int64 { return 100 })
	require.Equal(t, "stacked", r.Method)
	require.Equal(t, []int64{0, 10, 10 + half, math.MaxInt64}, r.Offsets)
	require.EqualValues(t, math.MaxInt64, r.Height)
	r = packed(context.Background(), buffers[:2], 100, func(int) int64 { return 100 })
	require.NotEqual(t, "stacked", r.Method, "two of them can be added up")
}
