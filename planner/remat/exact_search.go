package remat

import (
	"math"
	"slices"
)

// run goes on with the search until stop says so, and reports whether it is over: the cheapest
// schedule is found, or there is no schedule with extra runs cheaper than below, or there are too
// many states. Found is then a sequence of computes or nil. The bound holds for the extra runs of
// every schedule, that of below included.
func (e *exactSearch) run(stop func() bool) (found []int32, bound int64, over bool) {
	for len(e.queue) > 0 {
		top := e.queue.pop()
		s := &e.states[top.id]
		if top.total != s.total() {
			continue // it has been queued again
		}
		switch {
		case top.total >= e.below:
			return nil, e.below, true
		case s.left == 0:
			return e.sequence(top.id), top.total, true
		case len(e.states) >= exactStates || stop():
			e.queue.push(top)
			return nil, top.total, len(e.states) >= exactStates
		case e.dominated(s, top.id):
		case e.raise(s):
			if s.total() < e.below {
				e.queue.push(exactEntry{s.total(), s.left, top.id})
			}
		default:
			e.expanded[s.left] = append(e.expanded[s.left], top.id)
			e.expand(top.id)
		}
	}
	return nil, e.below, true
}

// dominated tells whether a state that has been expanded, with as many first runs left, is no
// dearer and wants no more. Every sequence that can precede the one can precede the other: each run
// needs the same or less there, because the values wanted before it are a subset again.
func (e *exactSearch) dominated(s *exactState, id int32) bool {
	list := e.expanded[s.left]
	list = list[max(0, len(list)-exactCompared):]
	e.work += int64(len(list)) / 2
	for _, o := range list {
		if t := &e.states[o]; t.cost <= s.cost && o != id && t.wanted.within(&s.wanted) {
			return true
		}
	}
	return false
}

// raise computes the bound of a state by itself, once, and reports whether that is more than was
// known.
func (e *exactSearch) raise(s *exactState) bool {
	if s.refine {
		return false
	}
	s.refine = true
	low := e.refined(s)
	if low <= s.bound {
		return false
	}
	if low > math.MaxInt64/2 {
		s.bound = math.MaxInt64 / 2
		return true
	}
	e.keepPrice()
	s.bound = low
	return true
}

func (e *exactSearch) bytesOf(set *nodeSet) (sum int64) {
	set.each(func(v int32) { sum += e.size[v] })
	return sum
}

// expand adds the states before a state: before the last first run that is left, and before an
// extra run of each value that is wanted.
func (e *exactSearch) expand(id int32) {
	s := e.states[id]
	if s.left > 0 {
		e.before(&s, id, s.left-1, 0)
	}
	s.wanted.each(func(v int32) {
		if !e.keep[v] {
			e.before(&s, id, v, e.cost[v])
		}
	})
	e.work += int64(e.n)
}

// before adds the state before a run of v: the last first run that is left, without a cost, or an
// extra run.
func (e *exactSearch) before(s *exactState, id, v int32, cost int64) {
	for _, w := range e.sharers[v] {
		if s.wanted.has(w) {
			return // its source must not be made anew
		}
	}
	next := exactState{wanted: s.wanted, left: s.left, ran: v, behind: id, cost: s.cost + cost, bytes: s.bytes}
	if cost == 0 {
		next.left--
	}
	if !next.wanted.has(v) {
		next.bytes += e.size[v]
	}
	for _, u := range e.uses[v] {
		if !next.wanted.has(u) {
			next.wanted.add(u)
			next.bytes += e.size[u]
		}
	}
	if next.bytes > e.budget-e.single.work[v] {
		return
	}
	next.wanted.remove(v)
	next.bytes -= e.size[v]
	if cost > 0 && e.later(s, v, next.bytes) {
		return
	}
	next.bound = max(0, s.bound-cost)
	e.offer(&next)
}

// later tells whether an extra run of x right before state s, which leaves so many bytes wanted,
// may as well stand behind the first run y that is right behind s, and need not be tried here. That
// is so if x is wanted behind y too, y does not read it, and both runs fit in that order. The
// values wanted before both are then the same in either order. The state behind y has an extra run
// of x tried, or again one that is later: stage by stage this ends, so no cheapest schedule is lost
// but for an equal one.
func (e *exactSearch) later(s *exactState, x int32, bytes int64) bool {
	y := s.ran
	if y != s.left || s.behind < 0 {
		return false
	}
	behind := &e.states[s.behind]
	if behind.left != y+1 || !behind.wanted.has(x) || bytes > e.budget-e.size[y]-e.single.work[y] ||
		slices.Contains(e.uses[y], x) {
		return false
	}
	need := behind.bytes + e.single.work[x]
	for _, u := range e.uses[x] {
		if !behind.wanted.has(u) {
			need += e.size[u]
		}
	}
	for _, w := range e.sharers[x] {
		if behind.wanted.has(w) {
			return false
		}
	}
	return need <= e.budget
}

// offer takes a state in if it is new or has become cheaper, unless it is of no interest.
func (e *exactSearch) offer(s *exactState) {
	if s.total() >= e.below {
		return
	}
	if s.bound = max(s.bound, e.quick(s)); s.total() >= e.below {
		return
	}
	id, added := e.find(s)
	if !added {
		old := &e.states[id]
		if old.cost <= s.cost {
			return
		}
		s.bound, s.refine = max(s.bound, old.bound), old.refine
		*old = *s
	}
	e.queue.push(exactEntry{s.total(), s.left, id})
}

// sequence lists the runs behind a state.
func (e *exactSearch) sequence(id int32) []int32 {
	var seq []int32
	for ; e.states[id].behind >= 0; id = e.states[id].behind {
		seq = append(seq, e.states[id].ran)
	}
	return seq
}
