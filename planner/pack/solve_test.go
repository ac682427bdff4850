package pack

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// smallest is the least height by trying all orders: each buffer takes the lowest gap
// that holds it. One of the orders is that of the offsets of a best packing.
func smallest(buffers []Buffer) int64 {
	offsets := make([]int64, len(buffers))
	placed := make([]int, 0, len(buffers))
	used := make([]bool, len(buffers))
	best := int64(1) << 62
	var visit func(top int64)
	visit = func(top int64) {
		if top >= best {
			return
		}
		if len(placed) == len(buffers) {
			best = top
			return
		}
		for i := range buffers {
			if used[i] {
				continue
			}
			offsets[i] = lowestGap(buffers, offsets, placed, i)
			used[i], placed = true, append(placed, i)
			visit(max(top, offsets[i]+buffers[i].Size))
			used[i], placed = false, placed[:len(placed)-1]
		}
	}
	visit(0)
	return best
}

func lowestGap(buffers []Buffer, offsets []int64, placed []int, i int) int64 {
	at := int64(0)
	for again := true; again; {
		again = false
		for _, k := range placed {
			if meet(buffers, i, k) && at < offsets[k]+buffers[k].Size && offsets[k] < at+buffers[i].Size {
				at, again = offsets[k]+buffers[k].Size, true
			}
		}
	}
	return at
}

func meet(buffers []Buffer, i, k int) bool {
	return buffers[i].Lower < buffers[k].Upper && buffers[k].Lower < buffers[i].Upper
}

// drawBuffers draws up to n buffers that live within a few moments, so that they
// conflict.
func drawBuffers(t *rapid.T, n int) []Buffer {
	moments := rapid.Int64Range(1, 8).Draw(t, "moments")
	most := rapid.Int64Range(1, 9).Draw(t, "most")
	unit := rapid.SampledFrom([]int64{1, 1, 256}).Draw(t, "unit")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Buffer {
		lower := rapid.Int64Range(0, moments-1).Draw(t, "lower")
		return Buffer{
			Lower: lower,
			Upper: rapid.Int64Range(lower+1, moments).Draw(t, "upper"),
			Size:  unit * rapid.Int64Range(0, most).Draw(t, "size"),
		}
	}), 0, n).Draw(t, "buffers")
}

func TestSolveFindsTheSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 7)
		want := smallest(buffers)
		r, err := Solve(context.Background(), buffers, Options{Seed: rapid.Int64().Draw(t, "seed")})
		require.NoError(t, err)
		assert.Equal(t, want, r.Height)
		assert.True(t, r.Optimal)
		assert.LessOrEqual(t, r.LowerBound, r.Height)
		assert.NoError(t, Check(buffers, r.Offsets, max(want, 1)))
	})
}

// TestExactAlone gives every rule of the exact search, without the greedy orders before it, capacities
// around the smallest.
func TestExactAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 7)
		problems := split(buffers)
		if len(problems) != 1 {
			t.Skip()
		}
		p := problems[0]
		want := smallest(buffers) / p.unit
		x := newExact(p)
		x.halt = func() bool { return false }
		for _, run := range exactRuns {
			for capacity := want - 2; capacity < want+2; capacity++ {
				o := x.run(capacity, 1e6, x.ranks(exactOrders[run.order]), run.by)
				if capacity < want {
					require.Equal(t, failed, o, "%s, capacity %d of %d", run.name, capacity, want)
					continue
				}
				require.Equal(t, found, o, "%s, capacity %d of %d", run.name, capacity, want)
				a := x.answer("")
				offsets := make([]int64, len(buffers))
				for i, id := range p.ids {
					offsets[id] = a.offsets[i] * p.unit
				}
				require.NoError(t, Check(buffers, offsets, capacity*p.unit))
			}
		}
	})
}

func TestSolveCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 7)
		want := smallest(buffers)
		capacity := want + rapid.Int64Range(-2, 2).Draw(t, "room")
		if capacity <= 0 {
			t.Skip()
		}
		r, err := Solve(context.Background(), buffers, Options{Capacity: capacity})
		require.NotNil(t, r)
		require.NoError(t, Check(buffers, r.Offsets, 0))
		if capacity < want {
			require.ErrorIs(t, err, ErrInfeasible)
			require.Greater(t, r.LowerBound, capacity)
			require.LessOrEqual(t, r.LowerBound, want)
			return
		}
		require.NoError(t, err)
		require.NoError(t, Check(buffers, r.Offsets, capacity))
	})
}

func TestSolveGreedyIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 200)
		r := Greedy(buffers)
		require.NoError(t, Check(buffers, r.Offsets, 0))
		require.Equal(t, height(buffers, r.Offsets), r.Height)
		require.LessOrEqual(t, r.LowerBound, r.Height)
	})
}
