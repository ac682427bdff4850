package offload

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
	"memopt/planner/remat"
)

// TestBytes compares the tree with a plain list.
func TestBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 40).Draw(t, "list")
		tree := newBytes(list)
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			a, b := rapid.IntRange(0, len(list)).Draw(t, "a"), rapid.IntRange(0, len(list)).Draw(t, "b")
			d := rapid.Int64Range(-20, 20).Draw(t, "d")
			tree.add(int32(a), int32(b), d)
			for i := a; i < b; i++ {
				list[i] += d
			}
			most := slices.Max(append([]int64{0}, list[min(a, b):b]...))
			require.Equal(t, most, tree.most(int32(min(a, b)), int32(b)))
		}
	})
}

// TestSlots: times that are found are free, not before their limits, and none earlier is.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s slots
		var taken []span
		free := func(from, length int) bool {
			return from >= 0 && !slices.ContainsFunc(taken, func(b span) bool {
				return float64(from) < b.to && b.from < float64(from+length)
			})
		}
		for range rapid.IntRange(1, 20).Draw(t, "copies") {
			limit, length := rapid.IntRange(0, 60).Draw(t, "limit"), rapid.IntRange(1, 9).Draw(t, "length")
			early := int(s.earliest(float64(limit), float64(length)))
			require.True(t, free(early, length))
			for at := limit; at < early; at++ {
				require.False(t, free(at, length))
			}
			s.take(float64(early), float64(length))
			taken = append(taken, span{float64(early), float64(early + length)})
		}
	})
}

// TestReturns compares the tree with a plain list: copies one after the other, each in time.
func TestReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		due := rapid.SliceOfN(rapid.Float64Range(0, 50), 1, 20).Draw(t, "due")
		slices.Sort(due)
		latest := func(lengths []float64) float64 {
			start := math.Inf(1)
			for leaf, length := range slices.Backward(lengths) {
				if length > 0 {
					start = min(start, due[leaf]) - length
				}
			}
			return start
		}
		tree, lengths := newReturns(due), make([]float64, len(due))
		for range rapid.IntRange(0, 20).Draw(t, "changes") {
			leaf := rapid.IntRange(0, len(due)-1).Draw(t, "leaf")
			lengths[leaf] = float64(rapid.IntRange(0, 9).Draw(t, "length"))
			tree.set(int32(leaf), lengths[leaf])
			require.InDelta(t, latest(lengths), tree.latest(), 1e-9)
			first := slices.IndexFunc(lengths, func(length float64) bool { return length > 0 })
			require.EqualValues(t, first, tree.first())
			with, leaf := slices.Clone(lengths), rapid.IntRange(0, len(due)-1).Draw(t, "another")
			if with[leaf] == 0 {
				with[leaf] = 5
				require.InDelta(t, latest(with), tree.latestWith(int32(leaf), 5), 1e-9)
			}
		}
	})
}

// moving is a problem in which a value must move: b cannot be recomputed, and c and d do not fit beside it.
func moving() *remat.Problem {
	one := func(size int64) []remat.Output { return []remat.Output{{Size: size}} }
	return &remat.Problem{Unit: "us", Budget: 14, InOrder: true, Nodes: []remat.Computation{
		{ID: "a", Cost: 1, Outputs: one(2)},
		{ID: "b", Cost: 4, Inputs: []int32{0}, Outputs: one(8), Once: true},
		{ID: "c", Cost: 10, Inputs: []int32{1}, Outputs: one(2)},
		{ID: "d", Cost: 10, Inputs: []int32{2}, Outputs: one(12)},
		{ID: "e", Cost: 10, Inputs: []int32{3}, Outputs: one(2)},
		{ID: "f", Cost: 10, Inputs: []int32{4}, Outputs: one(2)},
		{ID: "g", Cost: 1, Inputs: []int32{5, 1}, Outputs: []remat.Output{{Size: 2, Keep: true}}},
	}}
}

// TestMove: the schedule, step by step, its times and its bytes on the host.
func TestMove(t *testing.T) {
	p := moving()
	s, err := Solve(t.Context(), p, Options{Link: Link{BytesPerSecond: 1e6}, HostBudget: 8, Work: 1000})
	require.NoError(t, err)
	require.Equal(t, []Step{{Compute, 0}, {Compute, 1}, {Free, 0}, {Offload, 1}, {Compute, 2}, {Wait, 1}, {Free, 1},
		{Compute, 3}, {Free, 2}, {Compute, 4}, {Free, 3}, {Reload, 1}, {Compute, 5}, {Free, 4}, {Wait, 1}, {Compute, 6},
		{Free, 5}, {Free, 1}}, s.Steps)
	require.Equal(t, Outcome{Cost: 46, Makespan: 46, Peak: 14, HostPeak: 8}, s.Outcome)
	require.True(t, s.Optimal)
	require.EqualValues(t, 8, s.Moved)

	for _, o := range []Options{{Link: Link{BytesPerSecond: 1e6}, HostBudget: 7}, {HostBudget: 8}} {
		_, err = Solve(t.Context(), p, o)
		require.ErrorIs(t, err, remat.ErrInfeasible)
	}
	link := Link{BytesPerSecond: 5e5, Latency: time.Microsecond}
	slow, err := Solve(t.Context(), p, Options{Link: link, HostBudget: 8, Work: 1000})
	require.NoError(t, err)
	require.InDelta(t, 60, slow.Makespan, 1e-9) // out 5..22, d to 32, e to 42, in 42..59
	// Of the 8 bytes beyond the budget, the link carries 6 before d, in bounds rounded up to 7.
	slow, err = Solve(t.Context(), p, Options{Link: Link{BytesPerSecond: 4e5}, HostBudget: 8, Work: 100_000})
	require.NoError(t, err)
	require.InDelta(t, 66, slow.Makespan, 1e-9)
	require.InDelta(t, 48.5, slow.LowerBound, 1e-6)
	p.Nodes[1].Stay = true
	_, err = Solve(t.Context(), p, Options{Link: Link{BytesPerSecond: 1e6}, HostBudget: 8, Work: 1000})
	require.ErrorIs(t, err, remat.ErrInfeasible)
}

// TestReplayRefuses: each rule, by a schedule that breaks it.
func TestReplayRefuses(t *testing.T) {
	link := Link{BytesPerSecond: 1e6}
	start := []Step{{Compute, 0}, {Compute, 1}}
	for _, c := range []struct {
		steps []Step
		want  string
	}{
		{[]Step{{Offload, 1}, {Free, 1}}, "is freed while a copy of it is under way"},
		{[]Step{{Reload, 1}}, "has no copy on the host"},
		{[]Step{{Wait, 1}}, "no copy of value 1 is under way"},
		{[]Step{{Offload, 1}, {Reload, 1}}, "value 1 returns, which is live"},
		{[]Step{{Offload, 1}, {Offload, 1}}, "is on the host already"},
		{[]Step{{Offload, 2}}, "value 2 is not on the device"},
		{[]Step{{Offload, 9}}, "there is no value at position 9"},
		{[]Step{{Offload, 1}, {Wait, 1}, {Free, 1}, {Reload, 1}, {Compute, 2}},
			"is read before its copy back has ended"},
		{[]Step{{Offload, 1}, {Wait, 1}, {Free, 1}, {Reload, 1}, {Free, 1}},
			"is freed while a copy of it is under way"},
		{[]Step{{Offload, 1}, {Wait, 1}, {Free, 1}, {Reload, 1}, {Offload, 1}},
			"value 1 is not on the device"},
		{[]Step{{Offload, 0}, {Wait, 0}, {Free, 0}, {Compute, 0}, {Free, 0}, {Reload, 0}},
			"has no copy on the host"},
		{[]Step{{Compute, 2}}, "is never computed"},
	} {
		_, err := Replay(moving(), link, append(slices.Clone(start), c.steps...))
		require.ErrorContains(t, err, c.want, "%v", c.steps)
	}
	p := moving()
	p.Nodes[1].Stay = true
	_, err := Replay(p, link, append(slices.Clone(start), Step{Offload, 1}))
	require.ErrorContains(t, err, "must not move")
	p.Unit = "flops"
	_, err = Replay(p, link, start)
	require.ErrorContains(t, err, `costs are in "flops"`)
}

// TestLinkErrors: numbers that are no link.
func TestLinkErrors(t *testing.T) {
	for _, l := range []Link{{BytesPerSecond: -1}, {BytesPerSecond: math.Inf(1)}, {BytesPerSecond: math.NaN()},
		{BytesPerSecond: 1, Latency: -1}} {
		_, err := Solve(t.Context(), moving(), Options{Link: l, HostBudget: 1})
		require.ErrorContains(t, err, "offload: the link")
	}
}

// drawLine is a random timeline of values that are each read one or several times.
func drawLine(t *rapid.T) *Timeline {
	line := &Timeline{}
	runs := rapid.IntRange(3, 12).Draw(t, "runs")
	for range runs {
		line.Cost = append(line.Cost, float64(rapid.IntRange(1, 9).Draw(t, "cost")))
		line.Bytes = append(line.Bytes, 0)
	}
	for life := range rapid.IntRange(1, 6).Draw(t, "values") {
		made := rapid.IntRange(0, runs-3).Draw(t, "made")
		size := int64(rapid.IntRange(1, 9).Draw(t, "size"))
		after := made
		for range rapid.IntRange(1, 3).Draw(t, "reads") {
			if after+2 >= runs {
				break
			}
			before := rapid.IntRange(after+2, runs-1).Draw(t, "before")
			line.Gaps = append(line.Gaps, Gap{int32(life), size, int32(made), int32(after), int32(before)})
			after = before
		}
		for run := made; run <= after; run++ {
			line.Bytes[run] += size
		}
	}
	line.Sort()
	return line
}

// TestWaits: runs take their costs and their waits, and end when the moves say.
func TestWaits(t *testing.T) {
	waited := 0
	rapid.Check(t, func(t *rapid.T) {
		line := drawLine(t)
		link, most := Link{BytesPerSecond: 1e6}, slices.Max(line.Bytes)
		moves, end, ok := line.Moves(link, "us", most-rapid.Int64Range(0, most).Draw(t, "less"), 1<<40)
		if !ok {
			return
		}
		sum := 0.0
		for run, wait := range line.Waits(moves, link, "us") {
			require.GreaterOrEqual(t, wait, 0.0)
			if sum += line.Cost[run] + wait; wait > 0 {
				waited++
			}
		}
		require.InDelta(t, end, sum, 1e-9)
	})
	require.Positive(t, waited)
	require.Nil(t, (&Timeline{}).Waits(nil, Link{}, "flops"))
}

// TestChoose: with the moves all runs are within the budget, the host has no more than it holds, and the last
// run ends no later than by the clocks of the choice; no move can be left out.
func TestChoose(t *testing.T) {
	waited, clean := 0, 0
	check := func(t *rapid.T) {
		line, link := drawLine(t), clock{rate: rapid.Float64Range(0.3, 3).Draw(t, "rate")}
		budget := slices.Max(line.Bytes) - rapid.Int64Range(1, 20).Draw(t, "less")
		host := rapid.Int64Range(5, 60).Draw(t, "host")
		moves, end, ok := line.choose(link, budget, host, make([]bool, len(line.Gaps)))
		if !ok {
			return
		}
		device, hosted := slices.Clone(line.Bytes), make([]int64, len(line.Bytes))
		from := map[int32]int32{} // by life: the run behind which the host has it
		lives := map[int32]int64{}
		until := map[int32]int32{}
		for _, m := range moves {
			gap := line.Gaps[m.Gap]
			require.True(t, gap.After < m.Free && m.Free < m.In && m.In <= gap.Before, "%+v of %+v", m, gap)
			for run := m.Free; run < m.In; run++ {
				device[run] -= gap.Size
			}
			if _, known := from[gap.Life]; m.Clean {
				require.True(t, known)
				clean++
			} else {
				require.False(t, known)
				require.Greater(t, m.Out, gap.Made)
				require.LessOrEqual(t, m.Out, m.Free)
				from[gap.Life] = m.Out
			}
			lives[gap.Life], until[gap.Life] = gap.Size, gap.Before
		}
		for life, size := range lives {
			for run := from[life]; run < until[life]; run++ {
				hosted[run] += size
			}
		}
		require.LessOrEqual(t, slices.Max(device), budget)
		require.LessOrEqual(t, slices.Max(hosted), host)
		starts := line.times(moves, link)
		last := starts[len(starts)-1]
		require.LessOrEqual(t, last, end+1e-9)
		if plain := line.times(nil, link); last > plain[len(plain)-1] {
			waited++
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 50 {
			check(t)
		}
	})
	require.Positive(t, waited)
	require.Positive(t, clean)
}
