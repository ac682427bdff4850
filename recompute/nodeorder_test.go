package recompute_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
	"memopt/recompute"
)

func TestNodeOrder(t *testing.T) {
	for text, want := range map[string]recompute.NodeOrder{
		`[]`: {}, `null`: nil, `[4,"0-3",5,6]`: {4, 0, 1, 2, 3, 5, 6}, `["0-2"]`: {0, 1, 2}, `[1,2]`: {1, 2},
		`[3,2,1]`: {3, 2, 1},
	} {
		got, err := json.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
	var o recompute.NodeOrder
	require.NoError(t, json.Unmarshal([]byte(`[0, 1, 2, "3-3", "4-5"]`), &o), "the long form, and short runs")
	require.Equal(t, recompute.NodeOrder{0, 1, 2, 3, 4, 5}, o)
	for text, want := range map[string]string{
		`{}`: "wanted a list", `["3-1"]`: `order[0] is 3-1: wanted the index of a node, or a run such as "0-412"`,
		`[0,"x"]`: "order[1] is x: wanted", `[true]`: "order[0] is true: wanted", `[1.5]`: "order[0] is 1.5: wanted",
		`["1-2-3"]`: "order[0]", `["0-2000000000"]`: "an order of more than 16777216 nodes", `[9999999999]`: "order[0]",
	} {
		require.ErrorContains(t, json.Unmarshal([]byte(text), &o), want, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := recompute.NodeOrder(rapid.SliceOf(rapid.Int32Range(0, 9)).Draw(t, "order"))
		text, err := json.Marshal(want)
		require.NoError(t, err)
		var got recompute.NodeOrder
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, want, got)
	})
}
