package pack

import (
	"context"
	"math"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestLeap: a leap raises jobs to where raising them one by one ends, and finds the same dead ends.
func TestLeap(t *testing.T) {
	outcomes := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		problems := split(drawBuffers(t, 9))
		if len(problems) != 1 {
			t.Skip("rapid drew no instance of this kind; it draws another")
		}
		p := problems[0]
		levels := make([]int64, len(p.jobs))
		stuck := make([]bool, len(p.jobs))
		for i := range levels {
			levels[i] = rapid.Int64Range(0, 6).Draw(t, "level")
			stuck[i] = rapid.IntRange(0, 3).Draw(t, "stuck") > 0
		}
		capacity := p.bound + rapid.Int64Range(0, 40).Draw(t, "room")
		settled := func(rounds int) (*exact, bool) {
			x := newExact(p)
			x.halt, x.rounds, x.capacity = func() bool { return false }, rounds, capacity
			x.begin()
			for i := range p.jobs {
				if levels[i] > x.level[i] && levels[i] <= capacity-p.jobs[i].size {
					x.raise(int32(i), levels[i], stuck[i], 0, -1)
				}
			}
			return x, x.settle()
		}
		slow, can := settled(math.MaxInt)
		fast, ok := settled(0)
		require.Equal(t, can, ok)
		if ok {
			require.Equal(t, slow.level, fast.level)
			require.Equal(t, slow.floor, fast.floor)
		} else {
			require.NotZero(t, fast.conflict[0]&1, "the raises are to blame")
		}
		outcomes[ok]++
	})
	assert.NotZero(t, outcomes[true])
	assert.NotZero(t, outcomes[false])
}

// TestBitsOfDecisions: decisions have a bit of an explanation each, or as many share one as the shift says.
func TestBitsOfDecisions(t *testing.T) {
	for shift := range 3 {
		x := &exact{}
		x.shift = shift
		seen := map[[2]uint64]int{}
		for depth := range 1000 {
			word, bit := x.bit(depth)
			require.Less(t, word, 1000>>shift/64+1)
			require.Equal(t, 1, bits.OnesCount64(bit))
			seen[[2]uint64{uint64(word), bit}]++
		}
		for _, n := range seen {
			require.Equal(t, 1<<shift, n)
		}
	}
}

// climbing are buffers of a training step at a large batch, reduced from 348, in which two of 256
// bytes wait for each other below gigabytes.
func climbing() []Buffer {
	return []Buffer{{17, 421, 67108864, nil}, {403, 415, 3355443200, nil}, {408, 413, 3355443200, nil},
		{409, 413, 6710886400, nil}, {412, 618, 512, nil}, {414, 490, 6710886400, nil},
		{470, 472, 6710886400, nil}, {570, 573, 3355443200, nil}, {571, 573, 5033164800, nil},
		{381, 450, 6710886400, nil},
		{385, 410, 6710886400, nil}, {387, 405, 3355443200, nil},
		{457, 486, 6710886400, nil}, {457, 458, 256, nil}, {457, 458, 256, nil}, {459, 480, 6710886400, nil}}
}

// TestNoSmallSteps: what the search does at a node does not depend on how much smaller some buffers
// are than others.
func TestNoSmallSteps(t *testing.T) {
	problems := split(climbing())
	require.Len(t, problems, 1)
	x := newExact(problems[0])
	x.pause = 1
	most, asked := 0, 0
	x.halt = func() bool { asked++; return asked > 100_000 }
	for _, run := range exactRuns {
		for _, above := range []int64{0, 1, 1 << 20} {
			asked = 0
			x.run(problems[0].bound+above, 100, rankOf(problems[0].byLetters(exactOrders[run.order])), run.by)
			require.Less(t, asked, 100_000, run.name)
			most = max(most, len(x.records))
		}
	}
	assert.Less(t, most, 1000)
	r, err := Solve(context.Background(), climbing(), Options{Nodes: 2000})
	require.NoError(t, err)
	require.NoError(t, Check(climbing(), r.Offsets, r.Height))
}

// TestHaltedAnywhere: a search that must end does so at the next check, whatever it is doing.
func TestHaltedAnywhere(t *testing.T) {
	buffers := tight(300)
	problems := split(buffers)
	x := newExact(problems[0])
	require.NotNil(t, x)
	for polls := range 40 {
		left := polls
		x.halt, x.pause = func() bool { left--; return left < 0 }, 1<<(polls%12)
		run := exactRuns[polls%len(exactRuns)]
		o := x.run(problems[0].bound, math.MaxInt64, rankOf(problems[0].byLetters(exactOrders[run.order])), run.by)
		require.Equal(t, limited, o)
		require.Equal(t, -1, left, "it was asked again")
	}
	for polls := range 60 {
		ctx := &expiring{Context: context.Background(), polls: polls}
		r, err := Solve(ctx, buffers, Options{})
		require.NoError(t, err)
		require.NoError(t, Check(buffers, r.Offsets, r.Height))
		require.Greater(t, ctx.polls, -20)
	}
}
