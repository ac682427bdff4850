package offload

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// chooser picks the moves of a timeline in one sweep over its runs, with the clocks of computations and of copies each
// way under all that it has picked: where a run must wait, all that follows is later. A value that is away comes
// back as late as it can without a wait.
type chooser struct {
	*Timeline
	link   clock
	budget int64
	host   int64  // bytes that copies on the host may take
	stay   []bool // by gap: it must not move
	hosted *bytes // on the host, by run

	ends   []float64 // by run up to the one that the sweep is at: when the run before it has ended
	starts []float64 // of runs, and the end; from the next one on as if no further ones waited before, less delay
	delay  float64   // how long runs have waited
	away   int64     // bytes off the device
	out    slots
	in     inward

	next     int // gap to admit
	waiting  gapHeap
	moves    []Move
	newest   map[int32]int32 // by life: the newest of its gaps that is moved
	previous map[int32]int32 // by clean move's gap: the gap whose move has made the copy, or read it before
}

// inward are the copies back.
type inward struct {
	due     *returns  // of the values that are away
	leaf    []int32   // by gap, in due
	gap     []int32   // by leaf
	move    []int32   // by gap
	back    []float64 // by move: when its copy has ended
	before  float64   // when the copies have ended that are queued at earlier runs
	busy    float64   // and those at the run that the sweep is at
	queued  []int32   // moves whose copies are queued at the run
	reading [][]int32 // by run: moves whose copies are queued and whose values it reads
	early   []int32   // moves whose copies were queued before the run that reads their values
}

// How many values are looked at for one that leaves the device in time: some, to take the best, and more
// before one that does not is taken.
const (
	fewTries  = 16
	mostTries = 64
)

// choose picks moves that bring all runs within the budget, and returns those that turn out to be needed; the gaps of
// others join those that stay. It fails, with false, where values that can move are not enough. By its clocks, which
// the others are in, the last run ends no later than end.
func (t *Timeline) choose(link clock, budget, host int64, stay []bool) (moves []Move, end float64, ok bool) {
	c := &chooser{Timeline: t, link: link, budget: budget, host: host, stay: stay, starts: t.times(nil, link),
		hosted: newBytes(make([]int64, len(t.Cost))), newest: map[int32]int32{}, previous: map[int32]int32{},
		in: inward{leaf: make([]int32, len(t.Gaps)), gap: make([]int32, len(t.Gaps)),
			move: make([]int32, len(t.Gaps)), reading: make([][]int32, len(t.Cost))}}
	c.waiting.gaps = t.Gaps
	for g := range c.in.gap {
		c.in.gap[g] = int32(g)
	}
	slices.SortStableFunc(c.in.gap, func(a, b int32) int { return cmp.Compare(t.Gaps[a].Before, t.Gaps[b].Before) })
	due := make([]float64, len(c.in.gap))
	for leaf, g := range c.in.gap {
		c.in.leaf[g], due[leaf] = int32(leaf), c.starts[t.Gaps[g].Before]
	}
	c.in.due = newReturns(due)
	for run := range int32(len(t.Cost)) {
		if !c.pass(run) {
			return nil, 0, false
		}
	}
	c.prune()
	return c.moves, c.starts[len(t.Cost)] + c.delay, true
}

// pass brings the next run within the budget.
func (c *chooser) pass(run int32) bool {
	c.starts[run] += c.delay
	c.ends = append(c.ends, c.starts[run])
	for ; c.next < len(c.Gaps) && c.Gaps[c.next].After < run; c.next++ {
		if g := &c.Gaps[c.next]; !c.stay[c.next] && g.Before > run && float64(g.Size) >= c.link.latency*c.link.rate {
			heap.Push(&c.waiting, int32(c.next))
		}
	}
	c.in.queued, c.in.before = c.in.queued[:0], c.in.busy
	for c.mustReturn(run) {
		c.bring(run)
	}
	for c.Bytes[run]-c.away > c.budget {
		if !c.relieve(run) {
			return false
		}
	}
	reads := c.reads(run)
	c.starts[run] += reads
	c.delay += reads
	return true
}

func (c *chooser) gapOf(move int32) *Gap { return &c.Gaps[c.moves[move].Gap] }

// mustReturn tells whether the value that is read first of those that are away must be on its way back at a run:
// later ones would be late. While the copies before it go on until the next run, it need not.
func (c *chooser) mustReturn(run int32) bool {
	leaf := c.in.due.first()
	if leaf < 0 {
		return false
	}
	return c.Gaps[c.in.gap[leaf]].Before <= run ||
		c.in.due.latest() < c.starts[run+1] && c.busyBehind(run) < c.starts[run+1]
}

// busyBehind is when the copies back that are queued have ended, on the clock of the runs behind one.
func (c *chooser) busyBehind(run int32) float64 { return c.in.busy - c.delay - c.reads(run) }

// reads is how long a run waits for values that it reads.
func (c *chooser) reads(run int32) (wait float64) {
	for _, i := range c.in.reading[run] {
		wait = max(wait, c.in.back[i]-c.starts[run])
	}
	return wait
}

// bring queues the copy back of the value that is read first.
func (c *chooser) bring(run int32) {
	leaf := c.in.due.first()
	i := c.in.move[c.in.gap[leaf]]
	c.moves[i].In = run
	c.away -= c.gapOf(i).Size
	c.in.due.set(leaf, 0)
	c.in.queued = append(c.in.queued, i)
	before := c.gapOf(i).Before
	c.in.reading[before] = append(c.in.reading[before], i)
	if before > run {
		c.in.early = append(c.in.early, i)
	}
	c.account(run)
}

// account finds the times of the copies back that are queued at a run.
func (c *chooser) account(run int32) {
	in := &c.in
	in.busy = in.before
	for _, i := range in.queued {
		m := &c.moves[i]
		m.backAt = max(in.busy, c.starts[run])
		in.busy = m.backAt + c.link.duration(c.gapOf(i).Size)
		in.back[i] = in.busy
	}
}

// option is a way to take a value off the device during a run.
type option struct {
	Move
	again int32   // the move that is put off; -1 for a new one
	wait  float64 // of the run, for the copy to the host
	total float64 // with the waits of later runs for copies back
}

// relieve takes one value off the device during a run. Among those that are read again last it takes the one
// whose copy starts first, which leaves no times between copies unused, if that and all copies back are in time; or
// else the one that makes runs wait least.
func (c *chooser) relieve(run int32) bool {
	now := c.late(c.in.due.latest(), run, 0) // even without it
	best := c.early(run)
	found, fits := best.again >= 0, best.again >= 0 && best.total <= now
	var seen []int32
	for len(c.waiting.list) > 0 && len(seen) < mostTries && !(fits && len(seen) >= fewTries) {
		g := heap.Pop(&c.waiting).(int32)
		if c.Gaps[g].Before <= run {
			c.waiting.list = c.waiting.list[:0] // the others are read before it too
			break
		}
		seen = append(seen, g)
		o := c.option(g, run)
		switch inTime := o.total <= now; {
		case !c.fitsHost(o.Move):
		case fits:
			if inTime && o.outAt < best.outAt {
				best = o
			}
		case inTime || !found || o.total < best.total:
			best, found, fits = o, true, inTime
		}
	}
	for _, g := range seen {
		if !found || best.again >= 0 || g != best.Gap {
			heap.Push(&c.waiting, g)
		}
	}
	if found {
		c.commit(best, run)
	}
	return found
}

// early is the option of a value that is back before it is read, behind the run: its copy back may be put off. That
// needs no copy to the host, so it starts before all others.
func (c *chooser) early(run int32) option {
	best := option{again: -1}
	for len(c.in.early) > 0 && c.gapOf(c.in.early[0]).Before <= run {
		c.in.early = c.in.early[1:]
	}
	for _, i := range c.in.early[max(0, len(c.in.early)-mostTries):] { // the newest are read last
		g := c.moves[i].Gap
		if c.Gaps[g].Before <= run {
			continue
		}
		start := c.in.due.latestWith(c.in.leaf[g], c.link.duration(c.Gaps[g].Size))
		if total := c.late(start, run, 0); best.again < 0 || total < best.total {
			best = option{Move: Move{Gap: g, outAt: math.Inf(-1)}, again: i, total: total}
		}
	}
	return best
}

// late is how long copies back that must start by some time would have runs wait: they start behind a run, which
// waits for so long itself.
func (c *chooser) late(start float64, run int32, wait float64) float64 {
	return max(0, c.starts[run+1]-start, c.busyBehind(run)-wait-start)
}

// option is the move of a gap that takes its value off the device during a run: out as early as the link is free.
func (c *chooser) option(g, run int32) option {
	gap := &c.Gaps[g]
	length := c.link.duration(gap.Size)
	o := option{Move: Move{Gap: g, Free: gap.After + 1}, again: -1}
	if _, o.Clean = c.newest[gap.Life]; !o.Clean {
		// The copy may go out while the value is still read.
		o.outAt = c.out.earliest(c.starts[gap.Made]+c.Cost[gap.Made], length)
		o.wait = max(0, o.outAt+length-c.starts[run])
		o.Out = max(gap.Made+1, c.running(o.outAt))
		o.Free = min(run, max(o.Free, c.endedAt(o.outAt+length)))
	}
	o.total = o.wait + c.late(c.in.due.latestWith(c.in.leaf[g], length), run, o.wait)
	return o
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

func (c *chooser) commit(o option, run int32) {
	gap := &c.Gaps[o.Gap]
	length := c.link.duration(gap.Size)
	c.away += gap.Size
	c.in.due.set(c.in.leaf[o.Gap], length)
	if o.again >= 0 {
		is := func(i int32) bool { return i == o.again }
		c.in.early, c.in.queued = slices.DeleteFunc(c.in.early, is), slices.DeleteFunc(c.in.queued, is)
		c.account(run)
		return
	}
	if !o.Clean {
		c.out.take(o.outAt, length)
	}
	from, to := c.hostRuns(o.Move)
	c.hosted.add(from, to, gap.Size)
	c.in.move[o.Gap] = int32(len(c.moves))
	c.moves, c.in.back = append(c.moves, o.Move), append(c.in.back, 0)
	if o.Clean {
		c.previous[o.Gap] = c.newest[gap.Life]
	}
	c.newest[gap.Life] = o.Gap
	c.starts[run] += o.wait
	c.delay += o.wait
	c.account(run)
}

// prune takes moves back that the budget does not need, the last ones first, since a clean one stands
// behind the one whose copy it reads.
func (c *chooser) prune() {
	device := newBytes(c.Bytes)
	for _, m := range c.moves {
		device.add(m.Free, m.In, -c.Gaps[m.Gap].Size)
	}
	needed := make([]bool, len(c.Gaps))
	for i := len(c.moves) - 1; i >= 0; i-- {
		m := c.moves[i]
		size := c.Gaps[m.Gap].Size
		if !needed[m.Gap] && device.most(m.Free, m.In)+size <= c.budget {
			device.add(m.Free, m.In, size)
			c.stay[m.Gap] = true
			c.moves = slices.Delete(c.moves, i, i+1)
			continue
		}
		if m.Clean {
			needed[c.previous[m.Gap]] = true
		}
	}
}

// running is the last run so far before which all have ended at time t.
func (c *chooser) running(t float64) int32 {
	i, _ := slices.BinarySearchFunc(c.ends, t, func(end, t float64) int {
		if end <= t {
			return -1
		}
		return 1
	})
	return int32(max(0, i-1))
}

// endedAt is the first run so far before which the last one ends at time t or later, or else the next one.
func (c *chooser) endedAt(t float64) int32 {
	i, _ := slices.BinarySearch(c.ends, t)
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
