package pack

import (
	"context"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/internal/timelimit"
)

// height is the largest offset plus size.
func height(buffers []Buffer, offsets []int64) int64 {
	top := int64(0)
	for i, b := range buffers {
		top = max(top, offsets[i]+b.Size)
	}
	return top
}

// smallest finds the least height by trying all orders: each buffer takes the lowest gap that holds
// it. One of the orders is that of the offsets in an optimal packing.
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
	for step := max(buffers[i].Lower, buffers[k].Lower); step < min(buffers[i].Upper, buffers[k].Upper); step++ {
		if !gapped(buffers[i], step) && !gapped(buffers[k], step) {
			return true
		}
	}
	return false
}

func gapped(b Buffer, step int64) bool {
	return slices.ContainsFunc(b.Gaps, func(g Gap) bool { return g.Lower <= step && step < g.Upper })
}

// drawBuffers draws up to n buffers that live within a few moments, so that they
// conflict; some have gaps.
func drawBuffers(t *rapid.T, n int) []Buffer {
	moments := rapid.Int64Range(1, 8).Draw(t, "moments")
	most := rapid.Int64Range(1, 9).Draw(t, "most")
	unit := rapid.SampledFrom([]int64{1, 1, 256}).Draw(t, "unit")
	gaps := rapid.Bool().Draw(t, "gaps")
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Buffer {
		lower := rapid.Int64Range(0, moments-1).Draw(t, "lower")
		b := Buffer{
			Lower: lower,
			Upper: rapid.Int64Range(lower+1, moments).Draw(t, "upper"),
			Size:  unit * rapid.Int64Range(0, most).Draw(t, "size"),
		}
		for at := lower; gaps && at < b.Upper; at++ {
			if at > lower && rapid.IntRange(0, 2).Draw(t, "gap") == 0 {
				b.Gaps = append(b.Gaps, Gap{at, rapid.Int64Range(at+1, b.Upper).Draw(t, "end")})
				at = b.Gaps[len(b.Gaps)-1].Upper
			}
		}
		return b
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

// TestExactAlone gives every rule of the exact search, without the greedy orders before it,
// capacities around the smallest.
func TestExactAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 7)
		problems := split(buffers)
		if len(problems) != 1 {
			t.Skip("rapid drew no instance of this kind; it draws another")
		}
		p := problems[0]
		want := smallest(buffers) / p.unit
		x := newExact(p)
		x.rounds = rapid.SampledFrom([]int{0, 1, settleRounds}).Draw(t, "rounds before a leap")
		for _, run := range exactRuns {
			left := rapid.IntRange(0, 3).Draw(t, "questions before it is halted")
			x.halt, x.pause = func() bool { left--; return left < 0 }, 1
			x.run(want-1, 1e6, rankOf(p.byLetters(exactOrders[run.order])), run.by)
			x.halt = func() bool { return false }
			for capacity := want - 2; capacity < want+2; capacity++ {
				o := x.run(capacity, 1e6, rankOf(p.byLetters(exactOrders[run.order])), run.by)
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
			t.Skip("rapid drew no instance of this kind; it draws another")
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

func TestGreedyIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 200)
		r := Greedy(context.Background(), buffers)
		require.NoError(t, Check(buffers, r.Offsets, 0))
		require.Equal(t, height(buffers, r.Offsets), r.Height)
		require.LessOrEqual(t, r.LowerBound, r.Height)
	})
}

// TestFirst: the first packing is valid wherever its counted work ends, and within a capacity that Greedy does
// not need more work for; one that is high enough is met by the first of all.
func TestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 200)
		greedy := Greedy(context.Background(), buffers)
		capacity := rapid.Int64Range(0, greedy.Height+greedy.Height/4).Draw(t, "capacity")
		ctx, done := timelimit.Counted(context.Background(), rapid.Int64Range(0, 50_000).Draw(t, "work"))
		defer done()
		r := First(ctx, buffers, capacity)
		require.NoError(t, Check(buffers, r.Offsets, 0))
		require.Equal(t, height(buffers, r.Offsets), r.Height)
		require.Equal(t, greedy.LowerBound, r.LowerBound)
		whole := First(context.Background(), buffers, capacity)
		require.NoError(t, Check(buffers, whole.Offsets, 0))
		require.LessOrEqual(t, First(context.Background(), buffers, 0).Height, whole.Height,
			"a lower capacity is no reason for a higher packing")
		if ctx.Err() == nil {
			require.Equal(t, whole, r)
		}
	})
	buffers := tight(250)
	low := First(context.Background(), buffers, 0)
	high := First(context.Background(), buffers, math.MaxInt64)
	require.Less(t, low.Height, high.Height)
	require.Equal(t, "best fit in time", high.Method)
	middle := First(context.Background(), buffers, high.Height-1)
	require.Less(t, middle.Height, high.Height)
	ended, end := context.WithCancel(context.Background())
	end()
	require.NoError(t, Check(buffers, First(ended, buffers, 0).Offsets, 0))
}

// TestCounted: packing tells of its work, and ends when that is done.
func TestCounted(t *testing.T) {
	spent := func(pack func(context.Context)) int64 {
		ctx, done := timelimit.Counted(context.Background(), math.MaxInt64/2)
		defer done()
		pack(ctx)
		return math.MaxInt64/2 - timelimit.Left(ctx)
	}
	many := tight(1500)
	first := spent(func(ctx context.Context) { First(ctx, many, 0) })
	require.Positive(t, first)
	require.Less(t, first, spent(func(ctx context.Context) { Greedy(ctx, many) }))
	few := tight(400)
	ctx, done := timelimit.Counted(context.Background(), 10_000)
	defer done()
	r, err := Solve(ctx, few, Options{})
	require.NoError(t, err)
	require.True(t, timelimit.Ended(ctx))
	require.NoError(t, Check(few, r.Offsets, 0))
}

// TestStackingIsValid lets the greedy orders run out of work at any time.
func TestStackingIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 60)
		work := rapid.Int64Range(-1, 300).Draw(t, "work")
		r := &Result{Offsets: make([]int64, len(buffers))}
		for _, p := range split(buffers) {
			r.take(p, p.inOrder(p.byLetters(greedyOrders[1].letters), work, "", func(int64) bool { return false }))
		}
		require.NoError(t, Check(buffers, r.Offsets, 0))
		require.Equal(t, height(buffers, r.Offsets), r.Height)
	})
}

// TestSections checks sections against their definition: two buffers meet in time exactly if their
// sections do.
func TestSections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 20)
		group, jobs := make([]int, len(buffers)), make([]job, len(buffers))
		problems := split(buffers)
		for g, p := range problems {
			for i, id := range p.ids {
				group[id], jobs[id] = g, p.jobs[i]
			}
		}
		for i := range buffers {
			for k := range i {
				if buffers[i].Size > 0 && buffers[k].Size > 0 {
					same := group[i] == group[k] && problems[group[i]].meet(jobs[i].life, jobs[k].life)
					require.Equal(t, meet(buffers, i, k), same, "buffers %d and %d", i, k)
				}
			}
		}
	})
}

func TestSolveErrors(t *testing.T) {
	_, err := Solve(context.Background(), []Buffer{{0, 1, 1, nil}, {5, 5, 1, nil}}, Options{})
	assert.ErrorContains(t, err, "buffer 1 is live from 5 to 5")
	for _, buffers := range [][]Buffer{nil, {{0, 1, 0, nil}}, {{0, 1, 5, nil}}} {
		r, err := Solve(context.Background(), buffers, Options{Capacity: 5})
		require.NoError(t, err)
		assert.True(t, r.Optimal)
		assert.Len(t, r.Offsets, len(buffers))
	}
	r, err := Solve(context.Background(), []Buffer{{0, 2, 4, nil}, {1, 3, 4, nil}}, Options{Capacity: 7})
	assert.ErrorIs(t, err, ErrInfeasible)
	assert.EqualValues(t, 8, r.Height)
}

// tight makes buffers that are hard to fit into the largest sum of sizes live at once.
func tight(n int) []Buffer {
	rng := rand.New(rand.NewSource(3))
	buffers := make([]Buffer, n)
	for i := range buffers {
		lower := rng.Int63n(int64(n))
		buffers[i] = Buffer{lower, lower + 1 + rng.Int63n(int64(n)/2), 1 + rng.Int63n(1000), nil}
	}
	return buffers
}

func TestSolveLimits(t *testing.T) {
	buffers := tight(150)
	capacity := Greedy(context.Background(), buffers).LowerBound
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := Solve(ctx, buffers, Options{Capacity: capacity})
	assert.ErrorIs(t, err, ErrTimeLimit)
	assert.ErrorIs(t, err, context.Canceled)
	assert.NoError(t, Check(buffers, r.Offsets, r.Height))

	r, err = Solve(context.Background(), buffers, Options{Capacity: capacity, Nodes: 50})
	assert.ErrorIs(t, err, ErrTimeLimit)
	assert.LessOrEqual(t, r.Nodes, int64(50))

	last := Progress{Height: 1 << 62}
	opts := Options{Nodes: 60_000, Progress: func(p Progress) {
		assert.LessOrEqual(t, p.Height, last.Height)
		assert.GreaterOrEqual(t, p.LowerBound, last.LowerBound)
		assert.GreaterOrEqual(t, p.Nodes, last.Nodes)
		last = p
	}}
	r, err = Solve(context.Background(), buffers, opts)
	require.NoError(t, err)
	assert.Equal(t, r.Height, last.Height)
	last = Progress{Height: 1 << 62}
	again, err := Solve(context.Background(), buffers, opts)
	require.NoError(t, err)
	assert.Equal(t, r, again)
}

// expiring is a context that ends after it has been asked a number of times: a deadline that is the
// same on every machine.
type expiring struct {
	context.Context
	polls int // left; below 0, how often it was asked in vain
}

func (e *expiring) Err() error {
	if e.polls--; e.polls < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestSolveLarge is about problems that are too large for the exact search.
func TestSolveLarge(t *testing.T) {
	buffers := tight(10_000)
	require.Nil(t, newExact(split(buffers)[0]))
	greedy := Greedy(context.Background(), buffers)
	opts := Options{Nodes: 4 * 10_000}
	r, err := Solve(context.Background(), buffers, opts)
	require.NoError(t, err)
	assert.LessOrEqual(t, r.Height, greedy.Height)
	assert.NoError(t, Check(buffers, r.Offsets, r.Height))
	again, err := Solve(context.Background(), buffers, opts)
	require.NoError(t, err)
	assert.Equal(t, r, again)

	ctx := &expiring{Context: context.Background(), polls: 20}
	r, err = Solve(ctx, buffers, Options{})
	require.NoError(t, err)
	assert.NoError(t, Check(buffers, r.Offsets, r.Height))
	assert.Negative(t, ctx.polls, "the search ended before its context")
	assert.Greater(t, ctx.polls, -20, "the search goes on although its context has ended")
}

func BenchmarkGreedy(b *testing.B) {
	const n = 100_000
	for name, span := range map[string]int64{"short": 60, "long": n} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewSource(1))
			buffers := make([]Buffer, n)
			for i := range buffers {
				lower := rng.Int63n(n)
				buffers[i] = Buffer{lower, lower + 1 + rng.Int63n(span), 1 + rng.Int63n(1000), nil}
			}
			for b.Loop() {
				r := Greedy(context.Background(), buffers)
				b.ReportMetric(float64(r.Height)/float64(r.LowerBound), "height/bound")
			}
		})
	}
}
