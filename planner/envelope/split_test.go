package envelope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/symbolic"
)

// TestDivide: a box is cut where the answer changes: all of one part has one answer, all of the other
// another one.
func TestDivide(t *testing.T) {
	for at := int64(2); at <= 8; at++ {
		q := question{of: symbolic.MustParse("3*n - m").Sub(symbolic.Const(3*at - 4))}
		below, above := q.divide(Box{{Symbol: "m", Lo: 4, Hi: 4}, {Symbol: "n", Lo: 1, Hi: 8}})
		require.Equal(t, at-1, below[1].Hi)
		require.Equal(t, at, above[1].Lo)
	}
	// Where it changes along no edge, the longest axis is cut in its middle.
	below, _ := question{of: symbolic.MustParse("n")}.divide(Box{{Symbol: "n", Lo: 1, Hi: 9}})
	require.Equal(t, int64(5), below[0].Hi)
}

// TestJoined: boxes are one where they differ in one axis and touch there, in whichever order they come.
func TestJoined(t *testing.T) {
	box := func(lo, hi, from, to int64) Box {
		return Box{{Symbol: "m", Lo: lo, Hi: hi}, {Symbol: "n", Lo: from, Hi: to}}
	}
	a := box(1, 4, 2, 3)
	for _, c := range []struct{ with, want Box }{
		{box(5, 9, 2, 3), box(1, 9, 2, 3)},
		{box(1, 4, 4, 4), box(1, 4, 2, 4)},
		{box(6, 9, 2, 3), nil}, // a gap
		{box(4, 9, 2, 3), nil}, // they overlap
		{box(5, 9, 4, 5), nil}, // corners touch
		{a, nil},
	} {
		for _, pair := range [][2]Box{{a, c.with}, {c.with, a}} {
			got, ok := pair[0].joined(pair[1])
			require.Equal(t, c.want != nil, ok, "%v %v", pair[0], pair[1])
			require.Equal(t, c.want, got)
		}
		require.Equal(t, box(1, 4, 2, 3), a, "what is joined stays")
	}
}
