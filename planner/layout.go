package planner

import (
	"cmp"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
)

// Alignment is the number of bytes that every offset in an arena is a multiple of.
const Alignment = 256

// Layout places every buffer of a timeline in an arena.
type Layout struct {
	Offsets []int64 // by value; -1 for values without bytes of their own
	Bytes   int64   // size of the arena: the end of its highest buffer
	end     int64   // Bytes rounded up to the alignment
}

// hole is a free stretch of the arena.
type hole struct{ offset, size int64 }

// NewLayout packs the buffers as an allocator would that knows the sizes but not
// the future: in order of execution, each into the smallest hole that holds it, freed
// neighbours merged. Every buffer takes its size rounded up to the alignment.
func NewLayout(t *live.Timeline, bytes []int64) *Layout {
	l := &Layout{Offsets: make([]int64, len(t.Root))}
	var starts, ends []graph.ValueID
	for i, root := range t.Root {
		l.Offsets[i] = -1
		if id := graph.ValueID(i); root == id && bytes[i] > 0 {
			starts, ends = append(starts, id), append(ends, id)
		}
	}
	// Of the buffers that one step makes, the large ones choose first.
	slices.SortFunc(starts, func(a, b graph.ValueID) int {
		return cmp.Or(cmp.Compare(t.Ranges[a].Start, t.Ranges[b].Start), cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b))
	})
	slices.SortFunc(ends, func(a, b graph.ValueID) int {
		return cmp.Or(cmp.Compare(t.Ranges[a].End, t.Ranges[b].End), cmp.Compare(a, b))
	})
	var free []hole // by offset
	for _, id := range starts {
		for len(ends) > 0 && t.Ranges[ends[0]].End <= t.Ranges[id].Start {
			free = release(free, hole{l.Offsets[ends[0]], align(bytes[ends[0]])})
			ends = ends[1:]
		}
		free = l.place(free, id, align(bytes[id]))
		l.Bytes = max(l.Bytes, l.Offsets[id]+bytes[id])
	}
	return l
}

func align(n int64) int64 {
	if n > math.MaxInt64-Alignment {
		return n
	}
	return (n + Alignment - 1) / Alignment * Alignment
}

// place takes the smallest hole that is large enough, else extends the arena,
// together with a hole at its end.
func (l *Layout) place(free []hole, id graph.ValueID, size int64) []hole {
	best := -1
	for i, h := range free {
		if h.size >= size && (best < 0 || h.size < free[best].size) {
			best = i
		}
	}
	if best >= 0 {
		l.Offsets[id] = free[best].offset
		if free[best].offset += size; free[best].size == size {
			return slices.Delete(free, best, best+1)
		}
		free[best].size -= size
		return free
	}
	at := l.end
	if last := len(free) - 1; last >= 0 && free[last].offset+free[last].size == l.end {
		at = free[last].offset
		free = free[:last]
	}
	l.Offsets[id] = at
	l.end = at + size
	return free
}

// release puts a stretch back and merges it with free neighbours.
func release(free []hole, h hole) []hole {
	i, _ := slices.BinarySearchFunc(free, h.offset, func(f hole, offset int64) int { return cmp.Compare(f.offset, offset) })
	if i < len(free) && h.offset+h.size == free[i].offset {
		free[i].offset, free[i].size = h.offset, h.size+free[i].size
	} else {
		free = slices.Insert(free, i, h)
	}
	if i > 0 && free[i-1].offset+free[i-1].size == free[i].offset {
		free[i-1].size += free[i].size
		free = slices.Delete(free, i, i+1)
	}
	return free
}
