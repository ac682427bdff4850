package precision

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph/op"
	_ "memopt/internal/test/rapidflags" // how many instances TestCut draws
)

// TestCut compares the choice with all choices that are allowed.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "units")
		c := &choice{}
		for range n {
			c.units = append(c.units, rapid.SampledFrom([]op.Widths{op.Wide, op.Either, op.Either, op.Narrow}).
				Draw(t, "widths"))
		}
		for range rapid.IntRange(1, 12).Draw(t, "values") {
			v := traffic{maker: rapid.IntRange(none, n-1).Draw(t, "maker"), outside: rapid.Bool().Draw(t, "outside"),
				elements: rapid.Int64Range(0, 9).Draw(t, "elements")}
			v.low = v.maker == none && rapid.Bool().Draw(t, "low")
			v.readers = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "readers")
			c.values = append(c.values, v)
		}
		count := func(half []bool) (n int) {
			for _, h := range half {
				if h {
					n++
				}
			}
			return n
		}
		got := c.solve()
		require.True(t, c.allowed(got), "%+v: %v", c, got)
		best, fewest := int64(-1), 0
		for bits := range 1 << n {
			half := make([]bool, n)
			for u := range half {
				half[u] = bits>>u&1 == 1
			}
			if !c.allowed(half) {
				continue
			}
			switch cost := c.cost(half); {
			case best < 0 || cost < best:
				best, fewest = cost, count(half)
			case cost == best:
				fewest = min(fewest, count(half))
			}
		}
		require.Equal(t, best, c.cost(got), "%+v: %v", c, got)
		require.Equal(t, fewest, count(got), "%+v: %v", c, got)
	})
}

// TestBytes: a value takes the width of its maker, and a copy in the other where a reader needs that.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		v    traffic
		half []bool
		want int64
	}{
		{traffic{maker: none, elements: 3}, []bool{true}, 0},
		{traffic{maker: none, elements: 3, readers: []int{0}}, []bool{true}, 6},
		{traffic{maker: none, elements: 3, readers: []int{0}}, []bool{false}, 0},
		{traffic{maker: none, low: true, elements: 3, readers: []int{0}}, []bool{true}, 0},
		{traffic{maker: none, low: true, elements: 3, readers: []int{0, 1}}, []bool{true, false}, 12},
		{traffic{maker: none, low: true, elements: 3, outside: true}, []bool{true}, 12},
		{traffic{maker: 0, elements: 3}, []bool{true}, 6},
		{traffic{maker: 0, elements: 3}, []bool{false}, 12},
		{traffic{maker: 0, elements: 3, outside: true}, []bool{true}, 18},
		{traffic{maker: 0, elements: 3, readers: []int{1, 1}}, []bool{true, false}, 18},
		{traffic{maker: 0, elements: 3, readers: []int{1}}, []bool{false, true}, 18},
	} {
		require.Equal(t, c.want, c.v.bytes(c.half), "%+v %v", c.v, c.half)
	}
}
