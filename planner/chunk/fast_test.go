package chunk_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/planner/chunk"
)

// TestFastIsFiner: where parts that keep their bits are as small as they can be, mode fast has smaller
// ones, which begin anywhere and give what the whole gives, but for rounding.
func TestFastIsFiner(t *testing.T) {
	m := headOf(t, map[string]int64{"rows": 600, "hidden": 8, "classes": 300})
	b := newBaseline(t, m)
	most := map[chunk.Mode]int{}
	for _, mode := range []chunk.Mode{chunk.Exact, chunk.Fast} {
		lists, err := chunk.Propose(t.Context(), m.Model, b.order, m.Dims, b.plan.Base.Peak.Bytes, mode)
		require.NoError(t, err)
		require.NotEmpty(t, lists)
		for _, cuts := range lists {
			for _, c := range cuts {
				most[mode] = max(most[mode], c.Parts)
				require.True(t, c.Exact || mode == chunk.Fast)
			}
		}
		b.hold(t, lists[len(lists)-1]...)
	}
	require.Equal(t, 4, most[chunk.Exact], "600 rows, 192 at a time")
	require.Greater(t, most[chunk.Fast], 8)
}
