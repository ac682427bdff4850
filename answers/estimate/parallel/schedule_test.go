package parallel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipeline executes the schedules of all devices in time: a half runs when its device is free, in
// the schedule's order, and what it needs has been made: the forward half of the chunk before, or
// the backward half of the chunk behind. It is the oracle for what schedules hold, and knows nothing
// of how they are made.
type pipeline struct {
	l       Layout
	forward int // time of a forward half of a chunk; a backward half takes twice as long
	done    map[string]int
	free    []int
	held    []int
	most    []int
	end     int
}

func run(t *testing.T, l Layout) *pipeline {
	t.Helper()
	p := &pipeline{l: l, forward: 1, done: map[string]int{}, free: make([]int, l.PP), held: make([]int, l.PP),
		most: make([]int, l.PP)}
	next := make([]int, l.PP)
	// By device and chunk: how many forward and backward halves have begun. Micro-batches go in order.
	begun := make([][][2]int, l.PP)
	lists := make([][]unit, l.PP)
	for d := range l.PP {
		lists[d], begun[d] = schedule(l, d), make([][2]int, l.Interleave)
	}
	for left := l.PP; left > 0; {
		moved := false
		left = 0
		for d := range l.PP {
			if next[d] == len(lists[d]) {
				continue
			}
			left++
			u := lists[d][next[d]]
			micro := begun[d][u.chunk][half(u)]
			at, ready := p.ready(d, u, micro)
			if !ready {
				continue
			}
			p.run(d, u, micro, at)
			begun[d][u.chunk][half(u)]++
			next[d]++
			moved = true
		}
		require.True(t, moved || left == 0, "deadlock: %+v", l)
	}
	for d := range l.PP {
		for c, n := range begun[d] {
			require.Equal(t, [2]int{l.Microbatches, l.Microbatches}, n, "device %d, chunk %d", d, c)
		}
	}
	return p
}

func half(u unit) int {
	if u.backward {
		return 1
	}
	return 0
}

func key(stage, micro int, backward bool) string { return fmt.Sprint(stage, micro, backward) }

// ready says when what a half needs has been made.
func (p *pipeline) ready(d int, u unit, micro int) (at int, ok bool) {
	stage, last := u.chunk*p.l.PP+d, p.l.PP*p.l.Interleave-1
	var needs []string
	switch {
	case !u.backward && stage > 0:
		needs = []string{key(stage-1, micro, false)}
	case u.backward && stage < last:
		needs = []string{key(stage, micro, false), key(stage+1, micro, true)}
	case u.backward:
		needs = []string{key(stage, micro, false)}
	}
	for _, n := range needs {
		t, made := p.done[n]
		if !made {
			return 0, false
		}
		at = max(at, t)
	}
	return at, true
}

func (p *pipeline) run(d int, u unit, micro, at int) {
	took := p.forward
	if u.backward {
		took *= 2
		p.held[d]--
	} else {
		p.held[d]++
		p.most[d] = max(p.most[d], p.held[d])
	}
	end := max(at, p.free[d]) + took
	p.free[d], p.done[key(u.chunk*p.l.PP+d, micro, u.backward)] = end, end
	p.end = max(p.end, end)
}

// TestSchedule: executed in time, the schedules deadlock nowhere and idle no longer than the paper's
// (Narayanan and others, 2021, section 2.2): (p−1)(f+b) under 1F1B, and 1/v of that interleaved,
// where f and b are the times of all layers of a device. Stage i holds min(m, p−i) micro-batches,
// and interleaved its first device 1 + (p−1)/(p·v) times p.
func TestSchedule(t *testing.T) {
	for p := 1; p <= 6; p++ {
		for m := 1; m <= 14; m++ {
			l := Layout{PP: p, Microbatches: m}.WithDefaults()
			got := run(t, l)
			require.Equal(t, 3*(m+p-1), got.end, "%+v", l)
			for i := range p {
				require.Equal(t, min(m, p-i), got.most[i], "%+v: stage %d", l, i)
				require.Equal(t, got.most[i], inFlight(l, i), "%+v: stage %d", l, i)
			}
		}
		for v := 2; v <= 4 && p > 1; v++ {
			for groups := 1; groups <= 4; groups++ {
				l := Layout{PP: p, Microbatches: groups * p, Interleave: v}.WithDefaults()
				got := run(t, l)
				if groups > 1 { // where m = p all forward halves come first
					require.Equal(t, 3*(groups*p*v+p-1), got.end, "%+v", l)
					want := float64(p) * (1 + float64(p-1)/float64(p*v))
					require.InDelta(t, want, float64(got.most[0])/float64(v), 1e-9, "%+v", l)
				}
				for i := range p {
					require.Equal(t, got.most[i], inFlight(l, i), "%+v: device %d", l, i)
				}
			}
		}
	}
}

// TestWorst: the worst moment of a device is the one that counting all moments finds.
func TestWorst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		p, v := 1+rng.IntN(4), 1+rng.IntN(3)
		if p == 1 {
			v = 1
		}
		l := Layout{PP: p, Microbatches: p * (1 + rng.IntN(4)), Interleave: v}
		stash, peak := make([]int64, v), make([]int64, v)
		for c := range v {
			stash[c] = rng.Int64N(100)
			peak[c] = stash[c] + rng.Int64N(100)
		}
		for d := range p {
			var live []int // chunks whose stash is held, one entry each
			most := int64(0)
			for _, u := range schedule(l, d) {
				sum := peak[u.chunk]
				if u.backward {
					live = slices.Delete(live, slices.Index(live, u.chunk), slices.Index(live, u.chunk)+1)
				} else {
					sum = stash[u.chunk] // its forward half holds that at its end
				}
				for _, c := range live {
					sum += stash[c]
				}
				if !u.backward {
					live = append(live, u.chunk)
				}
				most = max(most, sum)
			}
			assert.Equal(t, most, worst(l, d, stash, peak).bytes, "%+v: device %d", l, d)
		}
	}
}

// TestPartition holds the cut of layers to all cuts.
func TestPartition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		cost := make([]float64, 1+rng.IntN(9))
		for i := range cost {
			cost[i] = float64(rng.IntN(20))
		}
		runs := 1 + rng.IntN(len(cost))
		got := partition(cost, runs)
		require.True(t, slices.IsSorted(got))
		require.Equal(t, runs, len(slices.Compact(slices.Clone(got))), "%v in %d: %v", cost, runs, got)
		require.InDelta(t, bestCut(cost, runs), largest(cost, got, runs), 1e-9, "%v in %d: %v", cost, runs, got)
	}
}

func largest(cost []float64, run []int, runs int) float64 {
	sums := make([]float64, runs)
	for i, r := range run {
		sums[r] += cost[i]
	}
	return slices.Max(sums)
}

// bestCut tries every cut.
func bestCut(cost []float64, runs int) float64 {
	if runs == 1 {
		return total(cost)
	}
	best := total(cost)
	for k := 1; k <= len(cost)-runs+1; k++ {
		best = min(best, max(total(cost[:k]), bestCut(cost[k:], runs-1)))
	}
	return best
}

func TestLayoutCheck(t *testing.T) {
	for _, c := range []struct {
		l    Layout
		want string
	}{
		{Layout{}, ""},
		{Layout{DP: 8, Zero: 3, TP: 2, PP: 2, Microbatches: 4, Interleave: 2, SequenceParallel: true}, ""},
		{Layout{DP: -1}, "DP is -1, wanted 1 to 65536"},
		{Layout{PP: 1 << 20}, "PP is 1048576, wanted 1 to 65536"},
		{Layout{Zero: 4}, "Zero is 4, wanted 0, 1, 2 or 3"},
		{Layout{SequenceParallel: true}, "it needs TP 2 or more"},
		{Layout{Interleave: 2}, "Interleave 2 needs PP 2 or more"},
		{Layout{PP: 4, Interleave: 2, Microbatches: 6}, "multiple of PP: got 6 and 4"},
	} {
		err := c.l.Check()
		if c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, c.want)
		}
	}
}
