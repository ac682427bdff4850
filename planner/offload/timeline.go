package offload

import (
	"cmp"
	"math"
	"slices"
)

// Timeline is a schedule as moves see it: runs of computations, one after the other.
type Timeline struct {
	Cost  []float64 // by run
	Bytes []int64   // by run: on the device during it, without moves
	Gaps  []Gap     // in ascending order of After
}

// Gap is a value between two runs that use it, with at least one run between them. During those it may
// leave the device.
type Gap struct {
	Life          int32 // gaps of one life are of one value: it has not been recomputed in between
	Size          int64
	Made          int32 // the run that makes the value
	After, Before int32 // the runs that use it
}

// Sort puts the gaps in ascending order of After and returns by gap where it was.
func (t *Timeline) Sort() []int32 {
	order := make([]int32, len(t.Gaps))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return int(t.Gaps[a].After) - int(t.Gaps[b].After) })
	t.Gaps = permuted(t.Gaps, order)
	return order
}

// Move takes the value of a gap off the device. Steps stand before runs.
type Move struct {
	Gap    int32
	Out    int32   // the copy out is queued before this run; not used for a clean one
	Free   int32   // the copy has ended before this run, and the memory goes
	In     int32   // the copy back is queued before this run; it has ended before the gap's Before
	Clean  bool    // the host has the value of a move before, so there is no copy out
	outAt  float64 // when the copies start as planned; they are queued in this order
	backAt float64
}

// Sequence sorts moves by the start of their copies to the host, and returns by move the place of its copy back among
// all of them.
func Sequence(moves []Move) (turns []int) {
	slices.SortStableFunc(moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.leaves(), b.leaves()), cmp.Compare(a.outAt, b.outAt))
	})
	order := make([]int, len(moves))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(moves[a].backAt, moves[b].backAt) })
	turns = make([]int, len(moves))
	for turn, i := range order {
		turns[i] = turn
	}
	return turns
}

// leaves is the run that follows the queueing of the copy to the host; without such a copy, the end of the memory.
func (m *Move) leaves() int32 {
	if m.Clean {
		return m.Free
	}
	return m.Out
}

// queued is a copy in its queue.
type queued struct {
	run  int32
	at   float64
	move int32
	back bool
}

// queue lists the copies of moves in program order.
func queue(moves []Move) []queued {
	var q []queued
	for i, m := range moves {
		if !m.Clean {
			q = append(q, queued{m.Out, m.outAt, int32(i), false})
		}
		q = append(q, queued{m.In, m.backAt, int32(i), true})
	}
	slices.SortStableFunc(q, func(a, b queued) int {
		switch {
		case a.run != b.run:
			return int(a.run) - int(b.run)
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	return q
}

// Times are the starts of the runs with moves on a link, and the end of the last one behind them.
func (t *Timeline) times(moves []Move, link clock) []float64 {
	frees, reads := make([][]int32, len(t.Cost)), make([][]int32, len(t.Cost))
	for i, m := range moves {
		frees[m.Free] = append(frees[m.Free], int32(i))
		b := t.Gaps[m.Gap].Before
		reads[b] = append(reads[b], int32(i))
	}
	var outs, ins []queued
	for _, c := range queue(moves) {
		if c.back {
			ins = append(ins, c)
		} else {
			outs = append(outs, c)
		}
	}
	host := map[int32]float64{} // by life: when its copy on the host is whole
	back := make([]float64, len(moves))
	starts := make([]float64, 0, len(t.Cost)+1)
	now, out, in := 0.0, 0.0, 0.0
	for r, cost := range t.Cost {
		for ; len(outs) > 0 && outs[0].run == int32(r); outs = outs[1:] {
			g := &t.Gaps[moves[outs[0].move].Gap]
			out = max(out, now) + link.duration(g.Size)
			host[g.Life] = out
		}
		for _, m := range frees[r] {
			if !moves[m].Clean {
				now = max(now, host[t.Gaps[moves[m].Gap].Life])
			}
		}
		for ; len(ins) > 0 && ins[0].run == int32(r); ins = ins[1:] {
			g := &t.Gaps[moves[ins[0].move].Gap]
			in = max(in, now, host[g.Life]) + link.duration(g.Size)
			back[ins[0].move] = in
		}
		for _, m := range reads[r] {
			now = max(now, back[m])
		}
		starts = append(starts, now)
		now += cost
	}
	return append(starts, now)
}

// Moves picks moves that bring all runs within the budget, with copies on the host that take no more than so
// many bytes at once, and the time when the last run ends with them. It fails, with false, where the values
// that may move are not enough. The cost of the runs is in a unit of time, us or ms.
func (t *Timeline) Moves(link Link, unit string, budget, host int64) (moves []Move, end float64, ok bool) {
	c, err := link.clock(unit)
	if err != nil {
		return nil, 0, false
	}
	return t.best(c, budget, host)
}

// Waits is by run how long it waits for copies, in the unit of the costs, us or ms; nil for another unit.
func (t *Timeline) Waits(moves []Move, link Link, unit string) []float64 {
	c, err := link.clock(unit)
	if err != nil {
		return nil
	}
	waits, now := t.times(moves, c)[:len(t.Cost)], 0.0
	for run, start := range waits {
		waits[run] = max(0, start-now)
		now = start + t.Cost[run]
	}
	return waits
}

// best picks moves where the runs need some, and again without those that were picked in vain, since copies of these
// had their times on the link.
func (t *Timeline) best(link clock, budget, host int64) (best []Move, end float64, ok bool) {
	starts := t.times(nil, link)
	peak := slices.Max(append([]int64{0}, t.Bytes...))
	if link.rate == 0 || peak <= budget {
		return nil, starts[len(starts)-1], peak <= budget
	}
	end = math.Inf(1)
	stay := make([]bool, len(t.Gaps))
	for range mostLooks {
		moves, _, found := t.choose(link, budget, host, stay)
		if !found {
			break
		}
		starts = t.times(moves, link)
		last := starts[len(starts)-1]
		if last >= end {
			break
		}
		if best, end, ok = moves, last, true; !slices.Contains(stay, true) {
			break
		}
	}
	return best, end, ok
}

// mostLooks is how often moves are picked for one schedule.
const mostLooks = 4
