package anchor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/live"
	"memopt/planner/place"
)

// TestValleys checks which places lie between peaks of the live bytes.
func TestValleys(t *testing.T) {
	usual := []int64{5, 9, 2, 8, 8, 3, 3, 9, 1}
	for _, c := range []struct {
		name  string
		bytes []int64
		from  int // the first step that anchors may hold back
		depth int64
		want  []int32
	}{
		{"both sides are high", usual, 0, 4, []int32{20, 50}},
		{"the first place of a flat one", usual, 3, 4, []int32{50}},
		{"only the deepest is deep enough", usual, 0, 7, []int32{20}},
		{"nothing rises behind the last", usual, 6, 4, nil},
		{"none is so deep", usual, 0, 8, nil},
		{"a lower peak counts from its own height", []int64{9, 2, 6, 5, 9}, 0, 4, []int32{10}},
	} {
		a := &search{p: &Plan{Trial: &place.Trial{Timeline: &live.Timeline{Live: c.bytes}}}}
		for i := range c.bytes {
			a.step = append(a.step, step{follows: i >= c.from})
			a.places = append(a.places, int32(10*i))
		}
		require.Equal(t, c.want, a.valleys(c.depth), c.name)
	}
}
