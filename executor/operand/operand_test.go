package operand

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	_ "memopt/internal/test/rapidflags"
)

// extreme draws numbers near the ends of int, near 0 and in between.
func extreme() *rapid.Generator[int] {
	return rapid.OneOf(rapid.IntRange(-9, 9), rapid.Int(), rapid.IntRange(math.MinInt, math.MinInt+2),
		rapid.IntRange(math.MaxInt-2, math.MaxInt))
}

// TestSliceBounds compares the places that bounds leave with those that a walk from start to end by
// step finds.
func TestSliceBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(0, 12).Draw(t, "length")
		start, end := extreme().Draw(t, "start"), extreme().Draw(t, "end")
		step := extreme().Filter(func(s int) bool { return s != 0 }).Draw(t, "step")
		var want []int
		for i := range d { // place i is taken where it is between the bounds, at a multiple of step from the first
			if step < 0 {
				i = d - 1 - i
			}
			if inSlice(i, start, end, step, d) {
				want = append(want, i)
			}
		}
		var got []int
		first, count, by := sliceBounds(start, end, step, d)
		for i := range count {
			got = append(got, first+i*by)
		}
		require.Equal(t, want, got)
	})
}

// inSlice is ONNX's definition of a slice in numbers of any size.
func inSlice(i, start, end, step, d int) bool {
	from, to, by := big.NewInt(int64(start)), big.NewInt(int64(end)), big.NewInt(int64(step))
	for _, bound := range []*big.Int{from, to} {
		if bound.Sign() < 0 {
			bound.Add(bound, big.NewInt(int64(d)))
		}
	}
	low, high := int64(0), int64(d)
	if step < 0 {
		low, high = -1, int64(d-1)
	}
	hold := func(bound *big.Int, low int64) {
		if bound.Cmp(big.NewInt(low)) < 0 {
			bound.SetInt64(low)
		}
		if bound.Cmp(big.NewInt(high)) > 0 {
			bound.SetInt64(high)
		}
	}
	hold(from, 0)
	hold(to, low)
	at := big.NewInt(int64(i))
	way := new(big.Int).Sub(at, from)
	if way.Sign()*step < 0 || new(big.Int).Rem(way, by).Sign() != 0 {
		return false
	}
	return new(big.Int).Sub(to, at).Sign() == by.Sign()
}

// TestIntSpan checks lengths against the formula in numbers of any size.
func TestIntSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start, limit := int64(extreme().Draw(t, "start")), int64(extreme().Draw(t, "limit"))
		delta := int64(extreme().Filter(func(s int) bool { return s != 0 }).Draw(t, "delta"))
		way := new(big.Int).Sub(big.NewInt(limit), big.NewInt(start))
		want, rest := new(big.Int).QuoRem(way, big.NewInt(delta), new(big.Int))
		if rest.Sign()*big.NewInt(delta).Sign() > 0 {
			want.Add(want, big.NewInt(1)) // rounded up
		}
		if want.Sign() < 0 {
			want.SetInt64(0)
		}
		got, ok := IntSpan(start, limit, delta)
		require.Equal(t, want.Cmp(big.NewInt(maxSpan)) < 0, ok)
		if ok {
			require.Equal(t, want.Int64(), int64(got))
		}
	})
}

// TestFloatSpan compares with integers where both apply, and tries NaN and infinities.
func TestFloatSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Int64Range(-1000, 1000)
		start, limit := draw.Draw(t, "start"), draw.Draw(t, "limit")
		delta := draw.Filter(func(s int64) bool { return s != 0 }).Draw(t, "delta")
		want, _ := IntSpan(start, limit, delta)
		got, ok := FloatSpan(float64(start), float64(limit), float64(delta))
		require.True(t, ok)
		require.Equal(t, want, got)
	})
	for _, limit := range []float64{math.NaN(), math.Inf(1)} {
		_, ok := FloatSpan(0, limit, 1)
		require.False(t, ok, "to %v", limit)
	}
}

// TestTimes compares with numbers of any size.
func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(0, math.MaxInt), rapid.IntRange(1<<30, 1<<32))
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		want := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(int64(b)))
		if want.Cmp(big.NewInt(1<<62)) >= 0 {
			want.SetInt64(-1)
		}
		require.Equal(t, want.Int64(), int64(Times(a, b)))
	})
}

// TestNamed names some axes from either end, in any order; then one of them again.
func TestNamed(t *testing.T) {
	c := &executor.Ctx{}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Bool(), 1, 6).Draw(t, "named")
		var axes []int
		for i, named := range want {
			if named {
				axes = append(axes, i-len(want)*rapid.IntRange(0, 1).Draw(t, "from the end"))
			}
		}
		axes = rapid.Permutation(axes).Draw(t, "axes")
		got, err := Named(c, axes, len(want), nil)
		require.NoError(t, err)
		require.Equal(t, want, got)
		if i := slices.Index(want, true); i >= 0 {
			_, err = Named(c, append(axes, i), len(want), got)
			require.ErrorContains(t, err, "twice")
		}
		_, err = Named(c, append(axes, len(want)), len(want), got)
		require.ErrorContains(t, err, "wanted one of a shape of rank")
	})
}

// TestRowMajor adds up steps along all axes: the sum for the last index is the last element's
// place.
func TestRowMajor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 5), 0, 5).Draw(t, "shape")
		last := 0
		for i, step := range RowMajor(nil, shape) {
			require.Equal(t, Product(shape[i+1:]), step)
			last += (shape[i] - 1) * step
		}
		require.Equal(t, Product(shape)-1, last)
	})
}
