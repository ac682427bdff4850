package remat

import "math"

// place is the place of a run in the order of execution: stage<<32 | task+1. The runs of stage s
// are the extra runs before the first run of task s, and that first run, in ascending order of
// their tasks.
type place int64

func at(stage, task int32) place { return place(stage)<<32 | place(task+1) }

func (p place) stage() int32 { return int32(p >> 32) }
func (p place) task() int32  { return int32(p&math.MaxUint32) - 1 }

// ledger is a graph with a list of extra runs that changes step by step, its cost and its memory.
// At any time it agrees with Simulate.
//
// The outputs of run k of a task, an instance of each of its values, are read by the readers
// between it and run k+1 and live from run k to the last of them. So one extra run more or less
// changes the end of at most two instances by value that it makes and of one by value that it
// reads. A change of an end raises or lowers a range of places: whole stages in a segment tree,
// parts of the first and last stage in their lists of runs. The work is logarithmic in the graph
// and does not depend on the length of the range.
type ledger struct {
	g       *Graph
	maker   []int32      // by value: the task that makes it
	made    []int64      // by task: bytes of all values it makes
	runs    [][]int32    // by task: the stages of its runs in order, the first one is the task itself
	readers [][]place    // by value: all runs that read it, in order
	stages  [][]stageRun // by stage: its runs in order
	tops    []int64      // by stage: the highest need in its list
	need    profile      // by stage: the highest need of a run
	reach   reach
	fixed   []int32 // by task: the stage of its extra run in Graph.Fixed, or 0; nil without such runs
	cost    int64
	extras  []Extra // in no order

	log     []ledgerChange // changes since the last forget, for undo
	touched []place        // runs whose discount must be looked at again
	work    int64          // runs inserted and removed, values looked at, and long lists of runs
}

// stageRun is one run in the list of its stage.
type stageRun struct {
	live int64 // bytes of the values live during it, less the tree's sum for the whole stage
	own  int64 // its workspace less the bytes taken over in place
	task int32
	id   int32 // in extras
}

// ledgerChange is an insertion or removal of an extra run.
type ledgerChange struct {
	Extra
	inserted bool
}

func newLedger(g *Graph) *ledger {
	n := len(g.Tasks)
	l := &ledger{
		g: g, maker: make([]int32, len(g.Values)), made: make([]int64, n), runs: make([][]int32, n),
		readers: make([][]place, len(g.Values)), stages: make([][]stageRun, n), tops: make([]int64, n),
	}
	ends := make([]int32, n)
	l.allocate()
	for t := range g.Tasks {
		l.runs[t][0] = int32(t)
		ends[t] = -1
		for _, v := range g.Tasks[t].Makes {
			l.maker[v] = int32(t)
			l.made[t] += g.Values[v].Size
		}
		for _, u := range g.Tasks[t].Uses {
			l.readers[u] = append(l.readers[u], at(int32(t), int32(t)))
			ends[l.maker[u]] = int32(t)
		}
	}
	l.reach = newReach(ends)
	l.measure()
	l.fix()
	return l
}

// fix puts in the extra runs that are always there.
func (l *ledger) fix() {
	if len(l.g.Fixed) == 0 {
		return
	}
	if l.fixed == nil {
		l.fixed = make([]int32, len(l.g.Tasks))
	}
	for _, x := range l.g.Fixed {
		l.fixed[x.Task] = x.Before
		if !l.runsAt(x.Task, x.Before) {
			l.insert(x.Task, x.Before)
		}
	}
	l.forget()
}

// isFixed tells whether an extra run is always there.
func (l *ledger) isFixed(x Extra) bool { return l.fixed != nil && l.fixed[x.Task] == x.Before }

// bare tells whether there are no extra runs but those that are always there.
func (l *ledger) bare() bool { return len(l.extras) == len(l.g.Fixed) }

// allocate makes room for the first runs and their reads, in one piece so that neighbours lie side
// by side.
func (l *ledger) allocate() {
	runs := make([]int32, len(l.runs))
	counts, reads := make([]int32, len(l.readers)), 0
	for t := range l.runs {
		l.runs[t] = runs[t : t+1 : t+1]
		for _, u := range l.g.Tasks[t].Uses {
			counts[u]++
		}
		reads += len(l.g.Tasks[t].Uses)
	}
	all := make([]place, reads)
	for v, k := range counts {
		l.readers[v], all = all[:0:k], all[k:]
	}
}

// measure fills in the memory of the plain order.
func (l *ledger) measure() {
	n := len(l.g.Tasks)
	delta := make([]int64, n+1)
	for v, value := range l.g.Values {
		start := at(l.maker[v], l.maker[v])
		end := int32(n - 1)
		if !value.Keep {
			end = l.end(int32(v), start, at(int32(n), -1)).stage()
		}
		delta[start.stage()] += value.Size
		delta[end+1] -= value.Size
	}
	entries, live := make([]stageRun, n), int64(0)
	for t := range entries {
		live += delta[t]
		entries[t] = stageRun{live: live + l.g.beside(t), task: int32(t), id: -1}
		l.stages[t] = entries[t : t+1 : t+1]
		entries[t].own = l.g.Tasks[t].Workspace - l.discount(at(int32(t), int32(t)))
		l.tops[t] = entries[t].live + entries[t].own
	}
	l.need = newProfile(l.tops)
}

// newest is the number of the newest run of task x at a stage or before.
func (l *ledger) newest(x, stage int32) int {
	runs := l.runs[x]
	low, high := 0, len(runs)
	for high-low > 1 {
		if mid := (low + high) / 2; runs[mid] <= stage {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// span is the place of run k of task x, and the place behind all readers of its outputs.
func (l *ledger) span(x int32, k int) (start, limit place) {
	runs := l.runs[x]
	if start = at(runs[k], x); k+1 < len(runs) {
		return start, at(runs[k+1], -1)
	}
	return start, at(int32(len(l.runs)), -1)
}

// from is the number of readers of v in front of a place.
func (l *ledger) from(v int32, p place) int {
	readers := l.readers[v]
	low, high := 0, len(readers)
	if high > 0 && readers[high-1] < p { // most often: v is not needed any more
		return high
	}
	for low < high {
		if mid := (low + high) / 2; readers[mid] < p {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// end is the last reader of v in front of limit, or start if no reader is behind start.
func (l *ledger) end(v int32, start, limit place) place {
	if j := l.from(v, limit); j > 0 {
		return max(start, l.readers[v][j-1])
	}
	return start
}

// kept tells whether the v of run k lives to the end.
func (l *ledger) kept(v int32, k int) bool { return k == 0 && l.g.Values[v].Keep }

// discount is the bytes that the run at p saves by writing over an input.
func (l *ledger) discount(p place) int64 {
	task := &l.g.Tasks[p.task()]
	for _, u := range task.InPlace {
		k := l.newest(l.maker[u], p.stage())
		_, limit := l.span(l.maker[u], k)
		j := l.from(u, p+1)
		if !l.kept(u, k) && (j == len(l.readers[u]) || l.readers[u][j] >= limit) {
			return l.g.Values[task.Makes[0]].Size
		}
	}
	return 0
}

// find is the number of the run of a task in the list of a stage, or where it would stand.
func (l *ledger) find(p place) int {
	list, task := l.stages[p.stage()], p.task()
	low, high := 0, len(list)
	for low < high {
		if mid := (low + high) / 2; list[mid].task < task {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// topOf is the highest need in a list of runs.
func topOf(list []stageRun) int64 {
	top := int64(beneath)
	for i := range list {
		top = max(top, list[i].live+list[i].own)
	}
	return top
}

// moved notes that the highest need of some runs in the list of a stage has changed.
func (l *ledger) moved(stage int32, before, after int64) {
	top := l.tops[stage]
	switch {
	case after >= top:
		l.tops[stage] = after
	case before == top: // another may be the highest now
		l.tops[stage] = topOf(l.stages[stage])
	}
	if d := l.tops[stage] - top; d != 0 {
		l.need.shift(int(stage), d)
	}
}

// raise adds d bytes to the runs behind a up to b.
func (l *ledger) raise(a, b place, d int64) {
	if d == 0 || a >= b {
		return
	}
	first, last := a.stage(), b.stage()
	if first == last {
		l.raisePart(first, a.task()+1, b.task(), d)
		return
	}
	if a.task() < first {
		l.raisePart(first, a.task()+1, first, d)
	}
	if b.task() < last {
		l.raisePart(last, 0, b.task(), d)
		last--
	}
	if first++; first <= last {
		l.need.raise(int(first), int(last), d)
	}
}

// longList is the number of runs in a list whose walk counts as one piece of work.
const longList = 256

// raisePart adds d bytes to the runs of one stage from one task to another.
func (l *ledger) raisePart(stage, from, to int32, d int64) {
	if from > to {
		return
	}
	list := l.stages[stage]
	l.work += int64(len(list) / longList)
	list = list[l.find(at(stage, from)):l.find(at(stage, to+1))]
	if len(list) == 0 {
		return
	}
	for i := range list {
		list[i].live += d
	}
	after := topOf(list)
	l.moved(stage, after-d, after)
}

// touch has the discount of the run at p looked at again.
func (l *ledger) touch(p place) {
	if len(l.g.Tasks[p.task()].InPlace) > 0 {
		l.touched = append(l.touched, p)
	}
}

func (l *ledger) refresh() {
	for _, p := range l.touched {
		list, i := l.stages[p.stage()], l.find(p)
		if i == len(list) || list[i].task != p.task() {
			continue // removed
		}
		own := l.g.Tasks[p.task()].Workspace - l.discount(p)
		if own != list[i].own {
			before := list[i].live + list[i].own
			list[i].own = own
			l.moved(p.stage(), before, list[i].live+own)
		}
	}
	l.touched = l.touched[:0]
}

// needAt is the need of the run at p.
func (l *ledger) needAt(p place) int64 {
	e := &l.stages[p.stage()][l.find(p)]
	s := int(p.stage())
	return l.need.max(s, s) - l.tops[s] + e.live + e.own
}

// peak is the highest need of a run; 0 without tasks.
func (l *ledger) peak() int64 { return max(0, l.need.nodes[1].top) }

// worst is the first run with the highest need.
func (l *ledger) worst() place {
	s, _ := l.need.highest()
	for i := range l.stages[s] {
		if e := &l.stages[s][i]; e.live+e.own == l.tops[s] {
			return at(int32(s), e.task)
		}
	}
	return at(int32(s), int32(s))
}
