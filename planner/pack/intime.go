package pack

import (
	"cmp"
	"slices"
	"sort"
)

// hole is a free stretch of the arena.
type hole struct{ offset, size int64 }

// holeScan is the number of holes that a job looks at before it takes the best so far.
const holeScan = 4096

// arena is the state of an allocator: its holes by offset, all apart, and the end of the used
// range.
type arena struct {
	holes []hole
	top   int64
	halt  halt // asked every so often whether to give up; from then on the arena only grows
	work  int
}

// timePause is the number of holes between two such checks.
const timePause = 1 << 18

// over reports whether so many more holes are too many.
func (a *arena) over(holes int) bool {
	if a.halt == nil {
		return true
	}
	if a.work += holes + 1; a.work >= timePause {
		if a.work = 0; a.halt(timePause / scanned) {
			a.halt = nil
		}
	}
	return a.halt == nil
}

// take cuts size units out of the smallest hole that holds them, the lowest on a tie; without such
// a hole the arena grows, from its last hole if that touches the end.
func (a *arena) take(size int64) int64 {
	if a.over(len(a.holes)) {
		a.top += size
		return a.top - size
	}
	best := -1
	for i, h := range a.holes[:min(len(a.holes), holeScan)] {
		if h.size >= size && (best < 0 || h.size < a.holes[best].size) {
			best = i
			if h.size == size {
				break
			}
		}
	}
	if best < 0 {
		offset := a.top
		if n := len(a.holes); n > 0 && a.holes[n-1].offset+a.holes[n-1].size == a.top {
			offset = a.holes[n-1].offset
			a.holes = a.holes[:n-1]
		}
		a.top = offset + size
		return offset
	}
	h := &a.holes[best]
	offset := h.offset
	h.offset, h.size = h.offset+size, h.size-size
	if h.size == 0 {
		a.holes = slices.Delete(a.holes, best, best+1)
	}
	return offset
}

// give frees a stretch and joins it with its neighbours.
func (a *arena) give(offset, size int64) {
	if a.halt == nil {
		return
	}
	i := sort.Search(len(a.holes), func(i int) bool { return a.holes[i].offset > offset })
	below := i > 0 && a.holes[i-1].offset+a.holes[i-1].size == offset
	above := i < len(a.holes) && offset+size == a.holes[i].offset
	switch {
	case below && above:
		a.holes[i-1].size += size + a.holes[i].size
		a.holes = slices.Delete(a.holes, i, i+1)
	case below:
		a.holes[i-1].size += size
	case above:
		a.holes[i].offset, a.holes[i].size = offset, a.holes[i].size+size
	default:
		a.holes = slices.Insert(a.holes, i, hole{offset, size})
	}
}

// inTime packs as an allocator would that knows the sizes but not the future: by start, each job
// into the smallest hole that holds it. Among the jobs that start in one section, those that live
// longest choose first. If halted, it stacks the rest.
func (p *problem) inTime(halt halt) answer {
	starts := make([]int32, len(p.jobs))
	for i := range starts {
		starts[i] = int32(i)
	}
	ends := slices.Clone(starts)
	slices.SortFunc(starts, func(x, y int32) int {
		a, b := p.jobs[x], p.jobs[y]
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(b.hi, a.hi), cmp.Compare(b.size, a.size), cmp.Compare(x, y))
	})
	slices.SortFunc(ends, func(x, y int32) int {
		return cmp.Or(cmp.Compare(p.jobs[x].hi, p.jobs[y].hi), cmp.Compare(x, y))
	})
	a := answer{offsets: make([]int64, len(p.jobs)), method: "best fit in time"}
	m := arena{halt: halt}
	next := 0
	for _, i := range starts {
		for p.jobs[ends[next]].hi <= p.jobs[i].lo {
			e := ends[next]
			m.give(a.offsets[e], p.jobs[e].size)
			next++
		}
		a.offsets[i] = m.take(p.jobs[i].size)
	}
	a.height = m.top
	return a
}
