package symbolic

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMajorant: it is the larger of both coefficients of each product, and so at least both sums.
func TestMajorant(t *testing.T) {
	for _, c := range [][3]string{
		{"3*n + 5", "4*n + 2", "4*n + 5"},
		{"n*m", "n + 7", "m*n + n + 7"},
		{"n*m - n", "2*m", "m*n + 2*m"},
		{"-3*n", "-2*n - 1", "-2*n"},
		{"6", "4", "6"},
	} {
		a, b := MustParse(c[0]), MustParse(c[1])
		require.True(t, Majorant(a, b).Equal(MustParse(c[2])), "%s, %s: %v", c[0], c[1], Majorant(a, b))
		require.True(t, Majorant(b, a).Equal(MustParse(c[2])))
	}
	require.True(t, Majorant(Unknown(), Const(1)).IsUnknown())
}
