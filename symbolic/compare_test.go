package symbolic_test

import (
	"math"
	"testing"

	"memopt/symbolic"

	"github.com/stretchr/testify/assert"
)

// What the methods are known to prove; that they prove nothing false is a property test.
func TestCompare(t *testing.T) {
	nonNegative := symbolic.Bounds{"a": {Lo: 0, Hi: math.MaxInt64}, "b": {Lo: 0, Hi: math.MaxInt64}}
	small := symbolic.Bounds{"a": {Lo: 2, Hi: 8}, "b": {Lo: 16, Hi: 32}}
	below := symbolic.Bounds{"a": {Lo: math.MinInt64, Hi: -1}}
	for _, tt := range []struct {
		a, b   string
		bounds symbolic.Bounds
		want   symbolic.Ordering
	}{
		{"3", "4", nil, symbolic.Less},
		{"a + b", "b + a", nil, symbolic.Equal},
		{"a", "a + 1", nil, symbolic.Less},
		{"a", "b", nil, symbolic.Incomparable},
		{"a", "0", nil, symbolic.Greater},
		{"a", "0", nonNegative, symbolic.Incomparable},
		{"a", "b", small, symbolic.Less},
		{"a*b", "300", small, symbolic.Less},
		{"a*b + 1", "a", nil, symbolic.Greater},
		{"2*a*b", "a + b - 1", nil, symbolic.Greater},
		{"a", "0", below, symbolic.Less},
		{"a*b", "a", below, symbolic.Incomparable},
		{"a**2 + 1", "0", symbolic.Bounds{"a": {Lo: math.MinInt64, Hi: math.MaxInt64}}, symbolic.Greater},
		{"floor(a/2)", "a", nil, symbolic.Less},
		{"ceiling(a/2)", "a + 1", nil, symbolic.Less},
		{"floor(a*b/3)*3", "a*b + 1", nil, symbolic.Less},
		{"floor(a/b)", "a + 1", nil, symbolic.Less},
		{"Mod(a, b)", "b", nil, symbolic.Less},
		{"Mod(a, b)", "a + 1", nil, symbolic.Less},
		{"Max(a, b) + 1", "a", nil, symbolic.Greater},
		{"Min(a, b)", "b + 1", nil, symbolic.Less},
		{"Max(a, b)", "a + b", nil, symbolic.Less},
		{"Max(a, b)", "a + b", nonNegative, symbolic.Incomparable},
		{"9223372036854775807*a", "-9223372036854775807*a", nil, symbolic.Greater},
	} {
		got := symbolic.Compare(symbolic.MustParse(tt.a), symbolic.MustParse(tt.b), tt.bounds)
		assert.Equal(t, tt.want, got, "%s against %s within %v: %v", tt.a, tt.b, tt.bounds, got)
	}
}

func TestAtMost(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true},
		{"a", "a*b", true},
		{"a*b", "a", false},
		{"a", "Max(a, b)", true},
		{"Min(a, b)", "a", true},
		{"Max(a, b)", "a*b", true},
		{"ceiling(a/2)", "a", true},
		{"2*floor(a/2)", "a", true},
		{"a", "2*ceiling(a/2)", true},
		{"a", "b*ceiling(a/b)", true},
		{"Mod(a, b)", "a", true},
		{"a", "?", false},
	} {
		assert.Equal(t, tt.want, symbolic.AtMost(symbolic.MustParse(tt.a), symbolic.MustParse(tt.b), nil),
			"%s ≤ %s", tt.a, tt.b)
	}
}

func TestBounds(t *testing.T) {
	b := symbolic.Bounds{"a": {Lo: 2, Hi: 5}, "z": {Lo: -3, Hi: 3}, "none": {Lo: 1, Hi: 0}}
	const inf = math.MaxInt64 // stands for no bound
	for _, tt := range []struct {
		e      string
		lo, hi int64
	}{
		{"7", 7, 7},
		{"a", 2, 5},
		{"n", 1, inf},
		{"none", -inf, inf},
		{"-n", -inf, -1},
		{"a*n", 2, inf},
		{"z**2", 0, 9},
		{"z**3", -27, 27},
		{"a - z", -1, 8},
		{"floor(a/2)", 1, 2},
		{"floor(z/a)", -2, 1},
		{"floor(a/n)", 0, 5},
		{"floor(z/n)", -3, 3},
		{"floor(5/z)", -inf, inf},
		{"Mod(n, 4)", 0, 3},
		{"Mod(a, n)", 0, 5},
		{"Mod(z, 9)", 0, 8},
		{"Max(a, n)", 2, inf},
		{"Min(a, n)", 1, 5},
	} {
		lo, hi, loOK, hiOK := symbolic.MustParse(tt.e).Bounds(b)
		assert.Equal(t, tt.lo != -inf, loOK, tt.e)
		assert.Equal(t, tt.hi != inf, hiOK, tt.e)
		if loOK {
			assert.Equal(t, tt.lo, lo, tt.e)
		}
		if hiOK {
			assert.Equal(t, tt.hi, hi, tt.e)
		}
	}
	_, _, loOK, hiOK := symbolic.Unknown().Bounds(b)
	assert.False(t, loOK || hiOK)
}
