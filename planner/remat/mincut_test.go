package remat

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFlowNet compares the flow with the cheapest of all cuts, and the cut found with its capacity.
func TestFlowNet(t *testing.T) {
	var f flowNet
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(t, "nodes")
		f.reset(n - 1)
		f.node()
		room := map[int32]int64{}
		for range rapid.IntRange(0, 20).Draw(t, "arcs") {
			from, to := rapid.Int32Range(0, int32(n-1)).Draw(t, "from"), rapid.Int32Range(0, int32(n-1)).Draw(t, "to")
			if from != to {
				room[f.arc(from, to)] = rapid.Int64Range(0, 9).Draw(t, "capacity")
			}
		}
		for a, r := range room {
			f.capacity(a, r)
		}
		across := func(side int) (sum int64) {
			for a, r := range room {
				if side>>f.to[a^1]&1 != 0 && side>>f.to[a]&1 == 0 {
					sum += r
				}
			}
			return sum
		}
		want := int64(math.MaxInt64)
		for side := range 1 << n {
			if side>>flowSource&1 != 0 && side>>flowSink&1 == 0 {
				want = min(want, across(side))
			}
		}
		got, full := f.maximum(math.MaxInt64)
		require.True(t, full)
		require.Equal(t, want, got)
		f.sourceSide()
		side := 0
		for v, l := range f.level {
			side |= int(l) << v
		}
		require.Equal(t, want, across(side))
	})
}

// TestRatio compares products with big numbers.
func TestRatio(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := math.Ldexp(rapid.Float64Range(0, 1).Draw(t, "x"), rapid.IntRange(-60, 60).Draw(t, "exponent"))
		scale, k := rapid.IntRange(-50, 60).Draw(t, "scale"), rapid.Int64Range(0, maxTotal).Draw(t, "k")
		exact := new(big.Float).SetPrec(300).SetFloat64(x)
		exact.Mul(exact, new(big.Float).SetInt64(k))
		exact.SetMantExp(exact, scale)
		for _, up := range []bool{false, true} {
			want, accuracy := exact.Int(nil)
			if up && accuracy == big.Below {
				want.Add(want, big.NewInt(1))
			}
			if want.Cmp(big.NewInt(flowEndless)) > 0 {
				want.SetInt64(flowEndless)
			}
			require.Equal(t, want.Int64(), newRatio(x, scale).times(k, up))
		}
	})
}
