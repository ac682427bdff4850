package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// at takes an index of dims apart, as dims_offset of kernels/reduce.h does.
func (f *foldDims) at(i int) int {
	at := 0
	for d := range f.dims {
		at += i % f.dims[d] * f.steps[d]
		i /= f.dims[d]
	}
	return at
}

// places lists the elements that a plan gives each result.
func (p *foldPlan) places() [][]int {
	var out [][]int
	for o := range p.outs {
		base := p.kept.at(o)
		if p.columns {
			for i := range p.inner {
				var group []int
				for r := range p.runs {
					group = append(group, base+p.fold.at(r)+i)
				}
				out = append(out, group)
			}
			continue
		}
		var group []int
		for e := range p.count {
			group = append(group, base+p.fold.at(e/p.inner)+e%p.inner)
		}
		out = append(out, group)
	}
	return out
}

// TestFoldPlan compares plans with a walk over all elements in their order.
func TestFoldPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 6).Draw(t, "shape")
		folded := rapid.SliceOfN(rapid.Bool(), len(shape), len(shape)).Draw(t, "folded")
		results := 1
		for i, d := range shape {
			if !folded[i] {
				results *= d
			}
		}
		want := make([][]int, results)
		for e := range elements(shape) {
			to, step, rest := 0, 1, e
			for i := len(shape) - 1; i >= 0; i-- {
				if !folded[i] {
					to += rest % shape[i] * step
					step *= shape[i]
				}
				rest /= shape[i]
			}
			want[to] = append(want[to], e)
		}
		var p foldPlan
		p.set(shape, folded)
		require.Equal(t, want, p.places())
		require.Len(t, want[0], p.count)
	})
}

// TestFoldChunks: chunks cover all the work, packs lie in one chunk, and no accumulators are taken
// beyond what is announced.
func TestFoldChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, n := rapid.IntRange(1, 1<<16).Draw(t, "rows"), rapid.IntRange(1, 1<<12).Draw(t, "n")
		first := rapid.Bool().Draw(t, "first axis")
		shape, y := []int{rows, n}, n
		if !first {
			y = rows
		}
		var p foldPlan
		p.set(shape, []bool{first, !first})
		chunks, chunk := p.chunks(4)
		work := p.count
		if p.columns {
			work = p.runs
		}
		require.GreaterOrEqual(t, chunks*chunk, work)
		require.Less(t, (chunks-1)*chunk, work)
		if chunks > 1 {
			require.Zero(t, chunk%16)
			k := &reduceKernel{width: 4, accBytes: 4}
			require.GreaterOrEqual(t, k.spaceFor(shape, []int{y}), 4*chunks*y, "the axis is not kept")
			kept := []int{1, n}
			if !first {
				kept = []int{rows, 1}
			}
			require.GreaterOrEqual(t, k.spaceFor(shape, kept), 4*chunks*y, "the axis is kept")
		}
	})
}
