package torch

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// offsets lists where the elements of a tensor lie, in row-major order of its indices.
func offsets(dims, strides []int64) []int64 {
	out := []int64{0}
	for i, d := range dims {
		var next []int64
		for _, o := range out {
			for k := range d {
				next = append(next, o+k*strides[i])
			}
		}
		out = next
	}
	return out
}

// TestViewStrides: a view under other dims has the same elements in the same order; where it is said that there is
// none, no strides give one.
func TestViewStrides(t *testing.T) {
	views := 0
	rapid.Check(t, func(r *rapid.T) {
		dims := rapid.SliceOfN(rapid.Int64Range(1, 4), 1, 4).Draw(r, "dims")
		x := tensor{dims: dims, strides: rowMajor(dims), elem: 4}
		perm := rapid.Permutation(places(len(dims))).Draw(r, "perm")
		x = x.permuted(perm)
		if rapid.Bool().Draw(r, "cut") && x.dims[0] > 1 {
			x.dims = slices.Clone(x.dims)
			x.dims[0]--
		}
		to := someDims(r, elements(x.dims))
		want := offsets(x.dims, x.strides)
		strides, ok := x.viewStrides(to)
		if ok {
			views++
			require.Equal(r, want, offsets(to, strides), "%v %v as %v", x.dims, x.strides, to)
			return
		}
		require.False(r, strided(to, want), "%v %v as %v", x.dims, x.strides, to)
	})
	require.Positive(t, views)
}

func places(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

// someDims draws dims with a product.
func someDims(r *rapid.T, n int64) (dims []int64) {
	for n > 1 {
		var divisors []int64
		for d := int64(2); d <= n; d++ {
			if n%d == 0 {
				divisors = append(divisors, d)
			}
		}
		d := rapid.SampledFrom(divisors).Draw(r, "dim")
		dims, n = append(dims, d), n/d
	}
	return append(dims, 1)
}

// strided reports whether some strides give offsets: those that the first steps along each dim show.
func strided(dims, want []int64) bool {
	strides := make([]int64, len(dims))
	step := int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		if dims[i] > 1 {
			strides[i] = want[step] - want[0]
		}
		step *= dims[i]
	}
	return slices.Equal(offsets(dims, strides), want)
}

// TestLayouts: what is contiguous and what is dense.
func TestLayouts(t *testing.T) {
	x := tensor{dims: []int64{2, 3, 4}, strides: rowMajor([]int64{2, 3, 4}), elem: 4}
	require.True(t, x.contiguous())
	require.True(t, x.dense())
	y := x.permuted([]int64{0, 2, 1})
	require.False(t, y.contiguous())
	require.True(t, y.dense())
	require.Equal(t, y.strides, y.stridesLike())
	back := y.permuted(inverse([]int64{0, 2, 1}))
	require.True(t, back.view)
	back.view = false
	require.Equal(t, x, back)
	cut := x
	cut.dims = []int64{2, 3, 3}
	require.False(t, cut.contiguous(), "rows have gaps between them")
	y.dims = []int64{2, 2, 3}
	require.False(t, y.dense())
	require.Equal(t, rowMajor(y.dims), y.stridesLike())
	e := tensor{dims: []int64{3, 1}, strides: []int64{1, 1}, elem: 4}.expanded([]int64{2, 3, 4})
	require.Equal(t, []int64{0, 1, 0}, e.strides)
	require.False(t, e.dense())
	require.Equal(t, int64(96), x.bytes())
}
