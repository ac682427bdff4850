package pack

import (
	"math/rand"
	"slices"
)

// exact is a depth-first search for a packing within a capacity. It builds the packing from below:
// a decision picks a section and asks which of its jobs rests on the jobs placed there already (see
// branch). It considers only packings whose jobs all rest on the bottom or on another job; any
// packing can be pushed down to one of those.
//
// For every job the search keeps a lower bound of its offset, the level. Every raise of a level is
// a record that also has its reason. A dead end is blamed on the decisions behind the levels
// involved, and the search jumps back over all decisions that are not blamed.
type exact struct {
	*problem
	capacity int64
	limit    int64       // on nodes, of the present run
	nodes    int64       // of the present run
	halt     func() bool // asked every pause steps
	pause    int64
	steps    int64   // since it was asked
	stopped  bool    // the run ends as soon as it can
	rank     []int32 // by job: its place in the order of candidates
	pickBy   picker

	meets []([]int32) // by job: the jobs live at once with it
	twin  []int32     // by job: the next one of the same range and size, or -1

	members [][]int32 // by section: its jobs, the first open[] not placed yet
	open    []int32
	spot    [][]int32 // by job: its positions in members, by section from its first on; absent in gaps
	total   []int64   // by section: the sum of sizes not placed
	floor   []int64   // by section: the smallest level of a job not placed
	choice  []int32   // by section: its candidates, see branch
	cross   []int32   // by section: the jobs not placed that began before it and have not ended
	weight  []float64 // by section: dead ends found in it

	offset []int64 // by job; -1 while not placed
	depth  []int32 // by placed job: its decision

	level    []int64   // by job: a lower bound of its offset
	stuck    []bool    // by job: it is blocked at its level
	witness  []int32   // by job: the job last seen to fit below it while it was blocked, or -1
	history  [][]int32 // by job: its records; the newest has the same level
	records  []record
	sets     []uint64 // sets of decisions, words each
	words    int
	shift    int     // a decision shares its bit with the 2^shift - 1 after it
	told     []int32 // by record: the explanation that it is part of already
	telling  int32
	toldOf   int // records of the explanation so far
	blocked  []int32
	placed   []int32
	floors   []savedFloor
	touched  []int32 // sections whose floor may have risen
	stamp    []int32
	tick     int32
	conflict []uint64
	scratch  [][]int32 // by depth: candidates
	options  []option
	goals    []int64 // of a leap, by job
	reached  []bool
	queue    restingQueue
	rounds   int        // settleRounds, except in tests
	blame    [][]uint64 // by depth: decisions blamed by the branches so far
}

// record raises the level of a job. A job that is blocked cannot rest at its level on a placed job,
// so it waits for another job to come below it. The level follows from the decision at a depth
// together with the record after, or from a set of decisions.
type record struct {
	level   int64
	job     int32
	depth   int32 // -1 for no decision
	after   int32 // -1 for no record
	set     int32 // where it starts in sets, or -1
	blocked bool
}

// savedFloor is a section before a change.
type savedFloor struct {
	section, choice int32
	floor           int64
}

// The limits that keep the search's memory within a few hundred megabytes.
const (
	exactPairs = 1 << 24 // of jobs that meet, and of sections and their jobs
	exactSets  = 1 << 24 // words
	exactRaise = 1 << 23 // records
	exactWords = 128     // of a set
	exactSteps = 1 << 14 // records of an explanation, for the sake of time
)

// haltWork is the number of steps, each a look at a job or at a section, between two questions
// whether the search must end: well below a millisecond.
const haltWork = 1 << 16

// spend counts steps and reports whether the run must end. Levels raised by a conclusion until then
// stay true, so a conclusion may end early; no further decision depends on it.
func (x *exact) spend(n int) bool {
	if x.steps += int64(n); x.steps >= x.pause {
		x.steps = 0
		x.stopped = x.stopped || x.halt()
	}
	return x.stopped
}

// full reports whether the records have used up the memory that the search may have.
func (x *exact) full() bool { return len(x.sets) > exactSets || len(x.records) > exactRaise }

// newExact prepares the search, or returns nil if the problem is too large for it.
func newExact(p *problem) *exact {
	n := len(p.jobs)
	x := &exact{problem: p, rounds: settleRounds, pause: haltWork}
	x.members = make([][]int32, p.sections)
	entries := 0
	for i, j := range p.jobs {
		if entries += int(j.hi - j.lo); entries > exactPairs {
			return nil
		}
		for k := j.lo; k < j.hi; k++ {
			if p.live(j, k) {
				x.members[k] = append(x.members[k], int32(i))
			}
		}
	}
	if !x.findMeets() {
		return nil
	}
	x.findTwins()
	x.total, x.floor = make([]int64, p.sections), make([]int64, p.sections)
	x.open, x.cross = make([]int32, p.sections), make([]int32, p.sections)
	x.weight, x.stamp = make([]float64, p.sections), make([]int32, p.sections)
	x.spot, x.offset, x.depth = make([][]int32, n), make([]int64, n), make([]int32, n)
	x.history, x.level, x.stuck = make([][]int32, n), make([]int64, n), make([]bool, n)
	x.witness = make([]int32, n)
	x.choice = make([]int32, p.sections)
	for i, j := range p.jobs {
		x.spot[i] = slices.Repeat([]int32{absent}, int(j.hi-j.lo))
		for k := j.lo + 1; k < j.hi; k++ {
			x.cross[k]++
		}
	}
	for k, list := range x.members {
		x.open[k] = int32(len(list))
		for at, i := range list {
			x.total[k] += p.jobs[i].size
			x.spot[i][int32(k)-p.jobs[i].lo] = int32(at)
		}
	}
	x.words = n/32 + 4
	for x.words>>x.shift > exactWords {
		x.shift++
	}
	x.words = x.words>>x.shift + 1
	x.conflict = make([]uint64, x.words)
	x.root()
	return x
}

// absent is the position of a job in a section of its gaps.
const absent = -1

// findMeets lists for every job those live at once with it: the ones live when it
// starts and the ones that start before it ends. It reports false if they are too many.
func (x *exact) findMeets() bool {
	if x.gaps != nil {
		return x.findMeetsInSections()
	}
	starts := make([][]int32, x.sections)
	before := make([]int, x.sections+1) // starts before a section
	for i, j := range x.jobs {
		starts[j.lo] = append(starts[j.lo], int32(i))
	}
	for k, list := range starts {
		before[k+1] = before[k] + len(list)
	}
	pairs := 0
	for _, j := range x.jobs {
		if pairs += len(x.members[j.lo]) + before[j.hi] - before[j.lo+1]; pairs > exactPairs {
			return false
		}
	}
	x.meets = make([][]int32, len(x.jobs))
	for i, j := range x.jobs {
		list := make([]int32, 0, len(x.members[j.lo])+before[j.hi]-before[j.lo+1])
		for _, u := range x.members[j.lo] {
			if int(u) != i {
				list = append(list, u)
			}
		}
		for _, more := range starts[j.lo+1 : j.hi] {
			list = append(list, more...)
		}
		x.meets[i] = list
	}
	return true
}

// findMeetsInSections is findMeets for jobs with gaps: it goes through all of their sections.
func (x *exact) findMeetsInSections() bool {
	x.meets = make([][]int32, len(x.jobs))
	seen := make([]int32, len(x.jobs)) // by job: the last one, counted from 1, that was found to meet it
	looks := 0
	for i, j := range x.jobs {
		for k := j.lo; k < j.hi; k++ {
			if !x.live(j, k) {
				continue
			}
			if looks += len(x.members[k]); looks > exactPairs {
				return false
			}
			for _, u := range x.members[k] {
				if int(u) != i && seen[u] != int32(i)+1 {
					seen[u] = int32(i) + 1
					x.meets[i] = append(x.meets[i], u)
				}
			}
		}
	}
	return true
}

// findTwins links the jobs of the same range and size. They are alike, so the search may want
// each to lie above the one before it.
func (x *exact) findTwins() {
	x.twin = make([]int32, len(x.jobs))
	last := map[job]int32{}
	for i, j := range x.jobs {
		x.twin[i] = -1
		if before, ok := last[j]; ok {
			x.twin[before] = int32(i)
		}
		last[j] = int32(i)
	}
}

// root makes the first record of every job.
func (x *exact) root() {
	for i := range x.jobs {
		x.offset[i], x.witness[i] = -1, -1
		x.history[i] = append(x.history[i], int32(i))
		x.records = append(x.records, record{job: int32(i), depth: -1, after: -1, set: -1})
	}
	for i, next := range x.twin {
		if next >= 0 {
			r := &x.records[next]
			r.level, r.blocked = x.records[i].level+x.jobs[i].size, true
			x.level[next], x.stuck[next] = r.level, true
			x.blocked = append(x.blocked, next)
		}
	}
}

// outcome is how a search, or a part of it, ended.
type outcome int

const (
	found outcome = iota
	failed
	limited // by the nodes or by halt
)

// run searches for a packing within the capacity; the offsets hold it if it is found. failed is a
// proof that there is no such packing.
func (x *exact) run(capacity, limit int64, rank []int32, by picker) outcome {
	m := mark{records: len(x.jobs), blocked: x.rootBlocked()}
	x.undo(m)
	clear(x.weight)
	x.capacity, x.limit, x.nodes, x.rank, x.pickBy = capacity, limit, 0, rank, by
	x.steps, x.stopped = 0, x.halt()
	x.begin()
	for k := range x.floor {
		x.touch(int32(k))
	}
	if !x.settle() {
		return failed
	}
	return x.solve(0, int32(x.sections), 0)
}

// rootBlocked counts the jobs that are blocked from the start.
func (x *exact) rootBlocked() int {
	n := 0
	for _, next := range x.twin {
		if next >= 0 {
			n++
		}
	}
	return n
}

// shuffled returns the rank with every job moved by up to noise times the number of jobs.
func shuffled(rank []int32, noise float64, rng *rand.Rand) []int32 {
	keys := make([]float64, len(rank))
	for i, r := range rank {
		keys[i] = float64(r) + noise*float64(len(rank))*rng.Float64()
	}
	return ranked(keys)
}
