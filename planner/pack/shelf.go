package pack

import (
	"math"
	"slices"
	"sort"
)

// slot is a placed job.
type slot struct {
	life
	offset, top int64
}

// shelf is a run of slots, ordered by offset, with the sections they reach.
type shelf struct {
	slots  []slot
	lo, hi int32
}

const shelfSlots = 256

// shelves holds placed jobs ordered by offset and finds the lowest gap for another one. It counts
// the slots it looks at; beyond its allowance it only stacks: a job then lies on top of all that it
// meets, which costs a logarithm instead of a scan.
type shelves struct {
	problem *problem
	list    []shelf
	budget  int64
	roof    *roof
}

func newShelves(p *problem, budget int64) *shelves {
	return &shelves{problem: p, budget: budget}
}

// place finds room for a job and takes it.
func (s *shelves) place(j job) int64 {
	if s.roof == nil && s.budget < 0 {
		s.roof = newRoof(s.problem.sections)
		for _, h := range s.list {
			for _, t := range h.slots {
				s.roof.raise(t.lo, t.hi, t.top)
			}
		}
	}
	if s.roof != nil {
		offset := s.roof.height(j.lo, j.hi)
		s.roof.raise(j.lo, j.hi, offset+j.size)
		return offset
	}
	offset := s.gap(j)
	s.put(slot{j.life, offset, offset + j.size})
	return offset
}

// gap is the lowest offset with space for the job.
func (s *shelves) gap(j job) int64 {
	at := int64(0)
	for i := range s.list {
		h := &s.list[i]
		if h.lo >= j.hi || h.hi <= j.lo {
			s.budget--
			continue
		}
		offset, looked := s.below(h.slots, j, at)
		s.budget -= int64(looked)
		if at = offset; looked < len(h.slots) {
			return at
		}
	}
	return at
}

// below is room for jobs that may have gaps.
func (s *shelves) below(slots []slot, j job, at int64) (offset int64, looked int) {
	if s.problem.gaps == nil {
		return room(slots, j, at)
	}
	for k := range slots {
		if !s.problem.meet(slots[k].life, j.life) {
			continue
		}
		offset, looked := room(slots[k:k+1], j, at)
		if looked == 0 {
			return at, k
		}
		at = offset
	}
	return at, len(slots)
}

// room is the lowest offset, from at on, with space for a job without gaps below one of the slots, and
// the number of slots below it. If it fits below no slot, it is the lowest offset above them.
func room(slots []slot, j job, at int64) (offset int64, looked int) {
	for k := range slots {
		t := &slots[k]
		if t.lo < j.hi && j.lo < t.hi {
			if t.offset-at >= j.size {
				return at, k
			}
			at = max(at, t.top)
		}
	}
	return at, len(slots)
}

// put adds a slot at its position in the order.
func (s *shelves) put(t slot) {
	if len(s.list) == 0 {
		s.list = append(s.list, shelf{lo: math.MaxInt32})
	}
	i := sort.Search(len(s.list), func(i int) bool { return i > 0 && s.list[i].slots[0].offset > t.offset })
	i = max(i-1, 0)
	h := &s.list[i]
	at := sort.Search(len(h.slots), func(k int) bool { return h.slots[k].offset > t.offset })
	h.slots = slices.Insert(h.slots, at, t)
	h.lo, h.hi = min(h.lo, t.lo), max(h.hi, t.hi)
	if len(h.slots) < shelfSlots {
		return
	}
	upper := newShelf(h.slots[shelfSlots/2:])
	*h = newShelf(h.slots[:shelfSlots/2])
	s.list = slices.Insert(s.list, i+1, upper)
}

func newShelf(slots []slot) shelf {
	h := shelf{slots: append(make([]slot, 0, shelfSlots), slots...), lo: math.MaxInt32}
	for _, t := range slots {
		h.lo, h.hi = min(h.lo, t.lo), max(h.hi, t.hi)
	}
	return h
}

// roof is the skyline over the sections: a tree of maxima.
type roof struct {
	leaves int32
	whole  []int64 // raised over the whole of a node
	best   []int64 // the highest point below a node
}

func newRoof(sections int) *roof {
	leaves := int32(1)
	for int(leaves) < sections {
		leaves *= 2
	}
	return &roof{leaves: leaves, whole: make([]int64, 2*leaves), best: make([]int64, 2*leaves)}
}

// height is the highest point over the sections [lo, hi).
func (r *roof) height(lo, hi int32) int64 {
	h := int64(0)
	a, b := lo+r.leaves, hi-1+r.leaves
	for l, u := a, b; l <= u; l, u = (l+1)/2, (u-1)/2 {
		h = max(h, r.best[l], r.best[u])
	}
	for a > 1 { // the whole of a node that holds an end is over that end, too
		a, b = a/2, b/2
		h = max(h, r.whole[a], r.whole[b])
	}
	return h
}

// raise lifts the sections [lo, hi) to at least a height.
func (r *roof) raise(lo, hi int32, to int64) {
	a, b := lo+r.leaves, hi-1+r.leaves
	for l, u := a, b; l <= u; l, u = (l+1)/2, (u-1)/2 {
		if l%2 == 1 {
			r.lift(l, to)
		}
		if u%2 == 0 {
			r.lift(u, to)
		}
	}
	for a > 1 {
		a, b = a/2, b/2
		r.best[a], r.best[b] = max(r.best[a], to), max(r.best[b], to)
	}
}

// lift raises the whole of a node.
func (r *roof) lift(node int32, to int64) {
	r.best[node], r.whole[node] = max(r.best[node], to), max(r.whole[node], to)
}
