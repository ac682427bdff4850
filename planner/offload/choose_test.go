package offload

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// layered is a timeline of a forward and a backward half, which reads values about in reverse.
func layered(rng *rand.Rand, layers int) *Timeline {
	runs := 4 * layers
	line := &Timeline{Cost: make([]float64, runs), Bytes: make([]int64, runs)}
	for run := range line.Cost {
		line.Cost[run] = float64(1 + rng.IntN(5))
	}
	for made := range runs / 2 {
		size := int64(1 + rng.IntN(4))
		if rng.IntN(3) == 0 {
			size *= 4
		}
		after, before := made, runs-1-made-rng.IntN(6)
		if rng.IntN(2) == 0 {
			after += rng.IntN(3)
		}
		if before < after+2 {
			continue
		}
		line.Gaps = append(line.Gaps, Gap{int32(made), size, int32(made), int32(after), int32(before)})
		for run := made; run <= before; run++ {
			line.Bytes[run] += size
		}
	}
	line.Sort()
	return line
}

// copied is a value that a copy can start for, in time from the start or from the end.
type copied struct {
	at   float64
	size int64
}

// carried is when a link has carried so many bytes of values, in any parts.
func carried(list []copied, link clock, bytes int64) (now float64) {
	slices.SortFunc(list, func(a, b copied) int { return cmp.Compare(a.at, b.at) })
	for _, x := range list {
		part := min(x.size, bytes)
		if bytes -= part; part > 0 {
			now = max(now, x.at) + float64(part)/link.rate
		}
	}
	return now
}

// away is how long run waits for so many bytes of values to have left, and for them to come back.
func away(line *Timeline, starts []float64, link clock, run int, bytes int64) (wait float64) {
	var out, in []copied
	end := starts[len(starts)-1]
	for _, g := range line.Gaps {
		if int(g.After) < run && run < int(g.Before) {
			out = append(out, copied{starts[g.Made] + line.Cost[g.Made], g.Size})
			in = append(in, copied{end - starts[g.Before], g.Size})
		}
	}
	return max(0, carried(out, link, bytes)-starts[run]) + max(0, carried(in, link, bytes)-end+starts[run+1])
}

// leastWait is how long runs wait at least: at each of them, the bytes beyond the budget have left, and come back, in
// any parts of values.
func leastWait(line *Timeline, link clock, budget int64) (wait float64) {
	starts := line.times(nil, link)
	for run, bytes := range line.Bytes {
		wait = max(wait, away(line, starts, link, run, max(0, bytes-budget)))
	}
	return wait
}

// TestRoom: so many bytes can be away without a wait, and no more.
func TestRoom(t *testing.T) {
	link, tight := Link{BytesPerSecond: 9e5}, 0
	for seed := range uint64(4) {
		line := layered(rand.New(rand.NewPCG(seed, 2)), 40)
		c, err := link.clock("us")
		require.NoError(t, err)
		starts := line.times(nil, c)
		for run, room := range line.Room(link, "us") {
			require.Less(t, away(line, starts, c, run, room), 1e-6)
			most := int64(0)
			for _, g := range line.Gaps {
				if int(g.After) < run && run < int(g.Before) {
					most += g.Size
				}
			}
			if require.LessOrEqual(t, room, most); room < most-1 {
				require.Positive(t, away(line, starts, c, run, room+2))
				tight++
			}
		}
	}
	require.Greater(t, tight, 50)
	require.Nil(t, (&Timeline{}).Room(Link{}, "flops"))
}

// TestTightBudgets: where the link is just too slow, runs wait hardly longer than they must, and not much longer with
// a hundredth less memory, nor much shorter.
func TestTightBudgets(t *testing.T) {
	link, waited := clock{rate: 0.9}, 0
	for seed := range uint64(12) {
		line := layered(rand.New(rand.NewPCG(seed, 1)), 60)
		plain := line.times(nil, link)
		step, peak, last := plain[len(plain)-1], slices.Max(line.Bytes), math.NaN()
		for budget := peak * 9 / 10; budget > peak*45/100; budget -= peak / 100 {
			least := leastWait(line, link, budget) / step
			_, end, ok := line.best(link, budget, math.MaxInt64)
			if !ok || least > 0.08 {
				break
			}
			wait := end/step - 1
			require.LessOrEqual(t, least, wait+1e-9, "seed %d, budget %d", seed, budget)
			require.LessOrEqual(t, wait, least+0.04, "seed %d, budget %d", seed, budget)
			if wait > 0 && last >= 0 {
				waited++
				require.InDelta(t, last+0.01, wait, 0.03, "seed %d, budget %d", seed, budget)
			}
			last = wait
		}
	}
	require.Greater(t, waited, 50)
}
