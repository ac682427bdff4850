package pack

import (
	"container/heap"
	"math"
)

// leap raises all blocked jobs at once to the final result of raising them one by one. In the end
// every one rests on another, down to one that is not blocked, so the levels are those of shortest
// paths from these: a step is as long as the job rested on is high, and ends no lower than the
// level known so far. Dijkstra's algorithm finds them in one pass, since every job is at least as
// high as the job that it rests on (Knuth, "A generalization of Dijkstra's algorithm", 1977). It
// reports whether the state is still consistent; if not, the conflict says why.
//
// All the raises are explained together: among the jobs that were to lie lower than they are
// raised, take the lowest. The job under it lies lower still, and therefore no lower than its own
// raise or, without one, its level; its top is no lower than the level of the job, which
// contradicts.
func (x *exact) leap() bool {
	goal := x.restingLevels()
	for _, i := range x.blocked {
		if x.climbs(i) {
			goal[i] = min(goal[i], x.capacity-x.jobs[i].size+1)
		}
	}
	at := len(x.sets)
	x.sets = append(x.sets, x.conflict...)
	set := x.sets[at:]
	if !x.explainLeap(set) {
		copy(x.conflict, set)
		return false
	}
	for n := len(x.blocked) - 1; n >= 0; n-- {
		if i := x.blocked[n]; x.climbs(i) {
			x.raise(i, goal[i], true, -1, -1)
			x.records[len(x.records)-1].set = int32(at)
		}
	}
	return true
}

// explainLeap fills a set with the decisions that the goals follow from, and reports whether all of
// them are within the capacity.
func (x *exact) explainLeap(set []uint64) bool {
	ok := true
	x.explain(set)
	for _, i := range x.blocked {
		if !x.climbs(i) {
			continue
		}
		ok = ok && x.goals[i] <= x.capacity-x.jobs[i].size
		x.spend(len(x.meets[i]))
		x.because(set, x.since(i, x.level[i]))
		for _, u := range x.meets[i] {
			switch {
			case x.offset[u] >= 0:
				x.blameOn(set, x.depth[u])
			case !x.climbs(u):
				x.because(set, x.since(u, x.goals[i]-x.jobs[u].size))
			}
		}
	}
	return ok
}

// climbs reports whether a job has a goal above its level.
func (x *exact) climbs(i int32) bool {
	return x.offset[i] < 0 && x.stuck[i] && x.goals[i] > x.level[i]
}

// restingLevels returns, for every job that is not placed, the lowest level where it can rest, or
// MaxInt64.
func (x *exact) restingLevels() []int64 {
	if x.goals == nil {
		x.goals, x.reached = make([]int64, len(x.jobs)), make([]bool, len(x.jobs))
	}
	goal, q := x.goals, x.queue[:0]
	clear(x.reached)
	for i := range x.jobs {
		goal[i] = math.MaxInt64
		if x.offset[i] < 0 && !x.stuck[i] {
			goal[i] = x.level[i]
			q = append(q, resting{goal[i], int32(i)})
		}
	}
	heap.Init(&q)
	for len(q) > 0 {
		u := heap.Pop(&q).(resting).job
		if x.reached[u] {
			continue
		}
		x.reached[u] = true
		x.spend(len(x.meets[u]))
		top := goal[u] + x.jobs[u].size
		for _, i := range x.meets[u] {
			if x.offset[i] < 0 && x.stuck[i] && max(top, x.level[i]) < goal[i] {
				goal[i] = max(top, x.level[i])
				heap.Push(&q, resting{goal[i], i})
			}
		}
	}
	x.queue = q
	return goal
}

// resting is a job with the lowest level found for it.
type resting struct {
	level int64
	job   int32
}

// restingQueue is a heap of them, the lowest first.
type restingQueue []resting

func (q restingQueue) Len() int      { return len(q) }
func (q restingQueue) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q restingQueue) Less(a, b int) bool {
	return q[a].level < q[b].level || q[a].level == q[b].level && q[a].job < q[b].job
}
func (q *restingQueue) Push(r any) { *q = append(*q, r.(resting)) }
func (q *restingQueue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	*q = (*q)[:last]
	return r
}
