package offload

import (
	"container/heap"
	"math"
	"slices"
)

// chooser picks the moves of a timeline.
type chooser struct {
	*Timeline
	link     clock
	budget   int64
	host     int64     // bytes that copies on the host may take
	starts   []float64 // of runs, and the end behind them, as far as they are known
	device   *bytes
	hosted   *bytes // on the host, by run
	out, in  slots
	next     int // gap to admit
	waiting  gapHeap
	moves    []Move
	newest   map[int32]int32 // by life: the newest of its gaps that is moved
	previous map[int32]int32 // by clean move's gap: the gap whose move has made the copy, or read it before
}

// How many values are looked at for one that leaves the device in time: some, to take the best, and more
// before one that does not is taken.
const (
	fewTries  = 16
	mostTries = 64
)

// choose picks moves that bring all runs within the budget. It fails, with false, where values that can
// move are not enough. starts are the expected times when runs start.
func (t *Timeline) choose(link clock, budget, host int64, starts []float64) ([]Move, bool) {
	c := &chooser{Timeline: t, link: link, budget: budget, host: host, starts: starts, device: newBytes(t.Bytes),
		hosted: newBytes(make([]int64, len(t.Cost))), newest: map[int32]int32{}, previous: map[int32]int32{}}
	c.waiting.gaps = t.Gaps
	for {
		p, _ := c.device.firstOver(budget)
		if p < 0 {
			break
		}
		for ; c.next < len(t.Gaps) && t.Gaps[c.next].After < p; c.next++ {
			if g := &t.Gaps[c.next]; g.Before > p && float64(g.Size) >= link.latency*link.rate {
				heap.Push(&c.waiting, int32(c.next))
			}
		}
		if !c.relieve(p) {
			return nil, false
		}
	}
	c.prune()
	return c.moves, true
}

// relieve moves one value off the device during run p. Among those that are read again last it takes the one
// whose copy starts first, which leaves no times between copies unused, if that has ended by then and the
// value comes back behind p; or else the one that makes runs wait least.
func (c *chooser) relieve(p int32) bool {
	var seen []Move
	var best Move
	found := false
	for len(c.waiting.list) > 0 && len(seen) < mostTries && !(found && len(seen) >= fewTries) {
		g := heap.Pop(&c.waiting).(int32)
		if c.Gaps[g].Before <= p {
			c.waiting.list = c.waiting.list[:0] // the others are read before it too
			break
		}
		m := c.place(g)
		if !c.fitsHost(m) {
			continue
		}
		seen = append(seen, m)
		if m.Free <= p && p < m.In && m.backAt >= c.outEnd(m) && (!found || m.outAt < best.outAt) {
			best, found = m, true
		}
	}
	wait, tardy := math.Inf(1), !found
	if tardy {
		for _, m := range seen {
			if later, w := c.late(m, p); w < wait {
				best, wait, found = later, w, true
			}
		}
	}
	if tardy {
		if i, w := c.early(p); i >= 0 && w < wait {
			c.postpone(i, p)
			best, found = Move{Gap: -1}, true
		}
	}
	for _, m := range seen {
		if !found || m.Gap != best.Gap {
			heap.Push(&c.waiting, m.Gap)
		}
	}
	if found && best.Gap >= 0 {
		c.commit(best)
	}
	return found
}

// early is the move whose value comes back before run p is over and is not read by then, and for which a
// later return makes runs wait least; -1 without one.
func (c *chooser) early(p int32) (move int, wait float64) {
	move, wait = -1, math.Inf(1)
	for i := range c.moves {
		m, gap := &c.moves[i], &c.Gaps[c.moves[i].Gap]
		if m.In > p || gap.Before <= p {
			continue
		}
		if w := max(0, c.starts[p+1]+c.link.duration(gap.Size)-c.starts[gap.Before]); w < wait {
			move, wait = i, w
		}
	}
	return move, wait
}

// postpone has the value of a move come back behind run p.
func (c *chooser) postpone(move int, p int32) {
	m := &c.moves[move]
	c.device.add(m.In, p+1, -c.Gaps[m.Gap].Size)
	m.In, m.backAt = p+1, c.starts[p+1]
}

// place finds the times of a move: out as early as the link is free, back as late.
func (c *chooser) place(g int32) Move {
	gap := &c.Gaps[g]
	length := c.link.duration(gap.Size)
	m := Move{Gap: g, Free: gap.After + 1}
	if _, m.Clean = c.newest[gap.Life]; !m.Clean {
		// The copy may go out while the value is still read.
		m.outAt = c.out.earliest(c.starts[gap.Made]+c.Cost[gap.Made], length)
		m.Out = max(gap.Made+1, c.running(m.outAt))
		m.Free = max(m.Free, c.startingAt(m.outAt+length))
	}
	m.backAt = c.in.latest(c.starts[gap.Before], length)
	m.In = min(c.running(m.backAt), gap.Before)
	return m
}

// outEnd is when the copy out of a move is expected to end.
func (c *chooser) outEnd(m Move) float64 {
	if m.Clean {
		return c.starts[m.Free]
	}
	return m.outAt + c.link.duration(c.Gaps[m.Gap].Size)
}

// late makes a move take its value off the device during run p, whatever runs wait for, and tells for
// how long they do at least.
func (c *chooser) late(m Move, p int32) (Move, float64) {
	gap := &c.Gaps[m.Gap]
	wait := max(0, c.outEnd(m)-c.starts[p])
	m.Free = p
	if !m.Clean {
		m.Out = min(m.Out, p)
	}
	m.In = max(m.In, p+1)
	back := max(m.backAt, c.starts[p]+wait, c.outEnd(m))
	return m, wait + max(0, back+c.link.duration(gap.Size)-wait-c.starts[gap.Before])
}

// fitsHost tells whether the host has the bytes for a move.
func (c *chooser) fitsHost(m Move) bool {
	from, to := c.hostRuns(m)
	return c.hosted.most(from, to)+c.Gaps[m.Gap].Size <= c.host
}

// hostRuns are the runs while a move takes bytes on the host that earlier moves of its value do not take.
func (c *chooser) hostRuns(m Move) (from, to int32) {
	gap := &c.Gaps[m.Gap]
	if m.Clean {
		return c.Gaps[c.newest[gap.Life]].Before, gap.Before
	}
	return m.Out, gap.Before
}

func (c *chooser) commit(m Move) {
	gap := &c.Gaps[m.Gap]
	length := c.link.duration(gap.Size)
	if !m.Clean {
		c.out.take(m.outAt, length)
	}
	c.in.take(m.backAt, length)
	c.device.add(m.Free, m.In, -gap.Size)
	from, to := c.hostRuns(m)
	c.hosted.add(from, to, gap.Size)
	c.moves = append(c.moves, m)
	if m.Clean {
		c.previous[m.Gap] = c.newest[gap.Life]
	}
	c.newest[gap.Life] = m.Gap
}

// prune takes moves back that the budget does not need, the last ones first, since a clean one stands
// behind the one whose copy it reads.
func (c *chooser) prune() {
	needed := make([]bool, len(c.Gaps))
	for i := len(c.moves) - 1; i >= 0; i-- {
		m := c.moves[i]
		size := c.Gaps[m.Gap].Size
		if !needed[m.Gap] && c.device.most(m.Free, m.In)+size <= c.budget {
			c.device.add(m.Free, m.In, size)
			c.moves = slices.Delete(c.moves, i, i+1)
			continue
		}
		if m.Clean {
			needed[c.previous[m.Gap]] = true
		}
	}
}

// running is the run that goes on at time t, or the last one that ended before it.
func (c *chooser) running(t float64) int32 { return max(0, c.startingAfter(t)-1) }

// startingAt is the first run that starts at time t or later.
func (c *chooser) startingAt(t float64) int32 {
	i, _ := slices.BinarySearch(c.starts, t)
	return int32(i)
}

// startingAfter is the first run that starts later than t.
func (c *chooser) startingAfter(t float64) int32 {
	i, _ := slices.BinarySearchFunc(c.starts, t, func(s, t float64) int {
		if s <= t {
			return -1
		}
		return 1
	})
	return int32(i)
}

// gapHeap has the gap that is read again last on top; among several the largest.
type gapHeap struct {
	gaps []Gap
	list []int32
}

func (h *gapHeap) Len() int { return len(h.list) }

func (h *gapHeap) Less(i, j int) bool {
	a, b := &h.gaps[h.list[i]], &h.gaps[h.list[j]]
	if a.Before != b.Before {
		return a.Before > b.Before
	}
	if a.Size != b.Size {
		return a.Size > b.Size
	}
	return h.list[i] < h.list[j]
}

func (h *gapHeap) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *gapHeap) Push(x any)    { h.list = append(h.list, x.(int32)) }
func (h *gapHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}
