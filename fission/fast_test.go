package fission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/fission"
)

// TestFastIsFiner: where parts that keep their bits are as small as they can be, mode fast has smaller
// ones, which begin anywhere and give what the whole gives, but for rounding.
func TestFastIsFiner(t *testing.T) {
	m := headOf(t, map[string]int64{"rows": 600, "hidden": 8, "classes": 300})
	b := newBaseline(t, m)
	most := map[fission.Mode]int{}
	for _, mode := range []fission.Mode{fission.Exact, fission.Fast} {
		lists, err := fission.Propose(t.Context(), m.Model, b.order, m.Dims, b.plan.Base.Peak.Bytes, mode)
		require.NoError(t, err)
		require.NotEmpty(t, lists)
		for _, cuts := range lists {
			for _, c := range cuts {
				most[mode] = max(most[mode], c.Parts)
				require.True(t, c.Exact || mode == fission.Fast)
			}
		}
		b.hold(t, lists[len(lists)-1]...)
	}
	require.Equal(t, 4, most[fission.Exact], "600 rows, 192 at a time")
	require.Greater(t, most[fission.Fast], 8)
}
