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
