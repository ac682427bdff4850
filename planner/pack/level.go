package pack

import (
	"math"
	"sort"
)

// mark is a state of the search to return to.
type mark struct{ placed, records, sets, blocked, floors int }

func (x *exact) mark() mark {
	return mark{len(x.placed), len(x.records), len(x.sets), len(x.blocked), len(x.floors)}
}

// undo reverts everything since the mark.
func (x *exact) undo(m mark) {
	for i := len(x.placed) - 1; i >= m.placed; i-- {
		x.lift(x.placed[i])
	}
	for i := len(x.records) - 1; i >= m.records; i-- {
		job := x.records[i].job
		list := x.history[job]
		x.history[job] = list[:len(list)-1]
		old := &x.records[list[len(list)-2]]
		x.level[job], x.stuck[job] = old.level, old.blocked
	}
	for i := len(x.floors) - 1; i >= m.floors; i-- {
		f := x.floors[i]
		x.floor[f.section], x.choice[f.section] = f.floor, f.choice
	}
	x.placed, x.records, x.blocked = x.placed[:m.placed], x.records[:m.records], x.blocked[:m.blocked]
	x.floors, x.sets = x.floors[:m.floors], x.sets[:m.sets]
}

// since is the oldest record that makes the level of a job at least v, or -1 if no record is
// needed.
func (x *exact) since(i int32, v int64) int32 {
	if v <= 0 {
		return -1
	}
	list := x.history[i]
	return list[sort.Search(len(list)-1, func(n int) bool { return x.records[list[n]].level >= v })]
}

// explain starts an explanation: a set of decisions that implies a conclusion.
func (x *exact) explain(set []uint64) {
	clear(set)
	x.telling++
	x.toldOf = 0
	if more := len(x.records) + 1 - len(x.told); more > 0 {
		x.told = append(x.told, make([]int32, more)...)
	}
}

// because adds the reason of a record to an explanation. If that gets too long, all decisions are
// blamed, which is never wrong.
func (x *exact) because(set []uint64, r int32) {
	for r >= 0 && x.told[r] != x.telling {
		if x.toldOf++; x.toldOf >= exactSteps {
			if x.toldOf == exactSteps {
				for i := range set {
					set[i] = ^uint64(0)
				}
			}
			return
		}
		x.told[r] = x.telling
		c := &x.records[r]
		if c.set >= 0 {
			join(set, x.sets[c.set:int(c.set)+x.words])
			return
		}
		if c.depth >= 0 {
			x.blameOn(set, c.depth)
		}
		r = c.after
	}
}

// blameOn adds a decision to an explanation.
func (x *exact) blameOn(set []uint64, depth int32) {
	word, bit := x.bit(int(depth))
	set[word] |= bit
}

func join(set, other []uint64) {
	for i, w := range other {
		set[i] |= w
	}
}

// bit is the position of a decision in a set.
func (x *exact) bit(depth int) (word int, bit uint64) {
	depth >>= x.shift
	return depth / 64, 1 << (depth % 64)
}

// begin starts a list of sections whose floors may rise.
func (x *exact) begin() {
	x.tick++
	x.touched = x.touched[:0]
}

func (x *exact) touch(k int32) {
	if x.stamp[k] != x.tick {
		x.stamp[k] = x.tick
		x.touched = append(x.touched, k)
	}
}

// raise gives a job a new level, which follows from a decision together with a record.
func (x *exact) raise(i int32, level int64, blocked bool, depth, after int32) {
	for k := x.jobs[i].lo; k < x.jobs[i].hi; k++ {
		if x.floor[k] == x.level[i] {
			x.touch(k)
		}
	}
	if blocked && !x.stuck[i] {
		x.blocked = append(x.blocked, i)
	}
	x.history[i] = append(x.history[i], int32(len(x.records)))
	x.records = append(x.records, record{level, i, depth, after, -1, blocked})
	x.level[i], x.stuck[i] = level, blocked
}

// drop places a job. Every other job that meets it and cannot fit below it has to lie above.
// It reports whether all is still possible; if not, the conflict says why.
func (x *exact) drop(i int32, offset int64, depth int) bool {
	x.begin()
	j := x.jobs[i]
	x.offset[i], x.depth[i] = offset, int32(depth)
	x.placed = append(x.placed, i)
	for n, k := range x.spot[i] {
		s := j.lo + int32(n)
		if n > 0 {
			x.cross[s]--
		}
		if k == absent {
			continue
		}
		x.swap(s, k, x.open[s]-1)
		x.open[s]--
		x.total[s] -= j.size
		if x.floor[s] == offset {
			x.touch(s)
		}
	}
	top := offset + j.size
	x.spend(len(x.meets[i]))
	for _, u := range x.meets[i] {
		if x.offset[u] >= 0 {
			continue
		}
		level, size := x.level[u], x.jobs[u].size
		if level > top || level == top && !x.stuck[u] || level+size <= offset {
			continue
		}
		x.raise(u, top, false, int32(depth), x.since(u, offset-size+1))
		if top+size > x.capacity {
			x.explain(x.conflict)
			x.because(x.conflict, int32(len(x.records)-1))
			return false
		}
	}
	return x.settle()
}

// lift takes a placed job out again; jobs must be lifted in the reverse order.
func (x *exact) lift(i int32) {
	j := x.jobs[i]
	x.offset[i] = -1
	for n, k := range x.spot[i] {
		s := j.lo + int32(n)
		if n > 0 {
			x.cross[s]++
		}
		if k != absent {
			x.open[s]++
			x.total[s] += j.size
		}
	}
}

// swap exchanges two members of a section.
func (x *exact) swap(s, a, b int32) {
	list := x.members[s]
	p, q := list[a], list[b]
	list[a], list[b] = q, p
	x.spot[p][s-x.jobs[p].lo], x.spot[q][s-x.jobs[q].lo] = b, a
}

// settleRounds is how often the blocked jobs are raised one by one before all are raised at once. A
// job that is raised alone is blamed on fewer decisions; but jobs that wait for one another climb
// by turns in steps of their sizes, which may be millions of times smaller than the way they have
// to go.
const settleRounds = 16

// settle draws conclusions up to a fixed point. It reports whether the state is still consistent;
// if not, the conflict says why.
func (x *exact) settle() bool {
	round := 0
	for again := true; again; round++ {
		if round == x.rounds {
			if !x.leap() {
				return false
			}
			break
		}
		again = false
		for at := 0; at < len(x.blocked); at++ {
			i := x.blocked[at]
			if x.offset[i] >= 0 || !x.stuck[i] {
				continue
			}
			if x.stopped = x.stopped || x.full(); x.spend(len(x.meets[i])) {
				return true
			}
			raised, ok := x.rest(i)
			if !ok {
				return false
			}
			again = again || raised
		}
	}
	return x.fill()
}

// rest raises a blocked job to the lowest top that a job not placed can have below it: that
// is where it can rest at the earliest.
func (x *exact) rest(i int32) (raised, ok bool) {
	level, size := x.level[i], x.jobs[i].size
	if u := x.witness[i]; u >= 0 && x.offset[u] < 0 && x.level[u]+x.jobs[u].size <= level {
		return false, true
	}
	next := int64(math.MaxInt64)
	for _, u := range x.meets[i] {
		if x.offset[u] < 0 {
			if next = min(next, x.level[u]+x.jobs[u].size); next <= level {
				x.witness[i] = u
				return false, true
			}
		}
	}
	ok = next <= x.capacity-size
	next = min(next, x.capacity-size+1)
	at := len(x.sets)
	x.sets = append(x.sets, x.conflict...)
	set := x.sets[at:]
	x.explain(set)
	x.because(set, x.since(i, level))
	for _, u := range x.meets[i] {
		if x.offset[u] < 0 {
			x.because(set, x.since(u, next-x.jobs[u].size))
			continue
		}
		x.blameOn(set, x.depth[u])
	}
	x.raise(i, next, true, -1, -1)
	x.records[len(x.records)-1].set = int32(at)
	if !ok {
		copy(x.conflict, set)
	}
	return true, ok
}

// fill computes the floors that may have risen and looks for sections whose open jobs
// no longer fit above their floor.
func (x *exact) fill() bool {
	for _, k := range x.touched {
		if x.spend(int(x.open[k])) {
			return true
		}
		floor, choice := int64(math.MaxInt64), int32(0)
		for _, u := range x.members[k][:x.open[k]] {
			if level := x.level[u]; level <= floor {
				if level < floor {
					floor, choice = level, 0
				}
				if !x.stuck[u] {
					choice++
				}
			}
		}
		if floor != x.floor[k] || choice != x.choice[k] {
			x.floors = append(x.floors, savedFloor{k, x.choice[k], x.floor[k]})
			x.floor[k], x.choice[k] = floor, choice
		}
		if x.open[k] > 0 && floor > x.capacity-x.total[k] {
			x.weight[k]++
			x.explain(x.conflict)
			for _, u := range x.members[k][:x.open[k]] {
				x.because(x.conflict, x.since(u, x.capacity-x.total[k]+1))
			}
			return false
		}
	}
	return true
}
