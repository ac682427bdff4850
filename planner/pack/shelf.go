package pack

import (
	"math"
	"slices"
	"sort"
)

// slot is a placed job.
type slot struct {
	lo, hi      int32
	offset, top int64
}

// shelf is a run of slots, ordered by offset, with the sections they reach.
type shelf struct {
	slots  []slot
	lo, hi int32
}

const shelfSlots = 256

// shelves holds placed jobs ordered by offset and finds the lowest gap for another one. It
// counts the slots it looks at; beyond the budget it only stacks: a job then comes to
// lie on top of all that it meets, which costs a logarithm instead of a scan.
type shelves struct {
	list   []shelf
	budget int64
	roof   *roof
	count  int // of sections
}

func newShelves(sections int, budget int64) *shelves {
	return &shelves{budget: budget, count: sections}
}

// place finds room for a job and takes it.
func (s *shelves) place(j job) int64 {
	if s.roof == nil && s.budget < 0 {
		s.roof = newRoof(s.count)
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
	s.put(slot{j.lo, j.hi, offset, offset + j.size})
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
		for k := range h.slots {
			t := &h.slots[k]
			if t.lo < j.hi && j.lo < t.hi {
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

// put adds a slot at its place in the order.
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
func (r *roof) height(lo, hi int32) int64 { return r.heightAt(1, 0, r.leaves, lo, hi) }

func (r *roof) heightAt(node, from, to, lo, hi int32) int64 {
	if hi <= from || to <= lo {
		return 0
	}
	if lo <= from && to <= hi {
		return r.best[node]
	}
	mid := (from + to) / 2
	return max(r.whole[node], r.heightAt(2*node, from, mid, lo, hi), r.heightAt(2*node+1, mid, to, lo, hi))
}

// raise lifts the sections [lo, hi) to at least a height.
func (r *roof) raise(lo, hi int32, to int64) { r.raiseAt(1, 0, r.leaves, lo, hi, to) }

func (r *roof) raiseAt(node, from, to, lo, hi int32, v int64) {
	if hi <= from || to <= lo {
		return
	}
	r.best[node] = max(r.best[node], v)
	if lo <= from && to <= hi {
		r.whole[node] = max(r.whole[node], v)
		return
	}
	mid := (from + to) / 2
	r.raiseAt(2*node, from, mid, lo, hi, v)
	r.raiseAt(2*node+1, mid, to, lo, hi, v)
}
