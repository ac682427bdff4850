package pack

import (
	"math"
	"slices"
	"sort"
)

// slot is a placed job.
type slot struct {
	job
	offset, top int64
}

// shelf is a run of slots, ordered by offset, with the sections they reach. Most slots that are looked
// at live at other times: lives has these sections by slot, close together.
type shelf struct {
	slots  []slot
	lives  []stretch
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
	s.put(slot{j, offset, offset + j.size})
	return offset
}

// gap is the lowest offset at which the job fits.
func (s *shelves) gap(j job) int64 {
	at := int64(0)
	for i := range s.list {
		h := &s.list[i]
		if h.lo >= j.hi || h.hi <= j.lo {
			s.budget--
			continue
		}
		for k, life := range h.lives {
			if life.lo >= j.hi || life.hi <= j.lo {
				continue
			}
			if t := &h.slots[k]; s.problem.meet(t.job, j) {
				if t.offset-at >= j.size {
					s.budget -= int64(k)
					return at
				}
				at = max(at, t.top)
			}
		}
		s.budget -= int64(len(h.slots))
	}
	return at
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
	h.slots, h.lives = slices.Insert(h.slots, at, t), slices.Insert(h.lives, at, stretch{t.lo, t.hi})
	h.lo, h.hi = min(h.lo, t.lo), max(h.hi, t.hi)
	if len(h.slots) < shelfSlots {
		return
	}
	upper := newShelf(h.slots[shelfSlots/2:])
	*h = newShelf(h.slots[:shelfSlots/2])
	s.list = slices.Insert(s.list, i+1, upper)
}

func newShelf(slots []slot) shelf {
	h := shelf{slots: append(make([]slot, 0, shelfSlots), slots...), lives: make([]stretch, len(slots), shelfSlots),
		lo: math.MaxInt32}
	for i, t := range slots {
		h.lives[i] = stretch{t.lo, t.hi}
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
