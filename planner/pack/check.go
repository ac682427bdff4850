package pack

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// span is the piece of the arena that a live buffer holds during a sweep.
type span struct {
	offset, top int64
	id          int
}

// Check returns an error that names the first buffers found to overlap, a buffer that leaves [0,
// capacity), or an invalid buffer; nil if the packing is valid. A capacity of 0 sets no limit. It
// sweeps through time with the live buffers ordered by offset and shares no code with the search.
func Check(buffers []Buffer, offsets []int64, capacity int64) error {
	if err := validate(buffers); err != nil {
		return err
	}
	if len(offsets) != len(buffers) {
		return fmt.Errorf("pack: %d offsets for %d buffers", len(offsets), len(buffers))
	}
	for i, b := range buffers {
		switch {
		case offsets[i] < 0:
			return fmt.Errorf("pack: buffer %d lies at the negative offset %d", i, offsets[i])
		case offsets[i]+b.Size < offsets[i]:
			return fmt.Errorf("pack: buffer %d of size %d at offset %d ends beyond 2⁶³-1", i, b.Size, offsets[i])
		case capacity > 0 && offsets[i]+b.Size > capacity:
			return fmt.Errorf("pack: buffer %d of size %d at offset %d ends at %d, above the capacity %d",
				i, b.Size, offsets[i], offsets[i]+b.Size, capacity)
		}
	}
	return sweep(buffers, offsets)
}

// moment is when a buffer becomes live, or ceases to be.
type moment struct {
	time int64
	id   int
}

// sweep looks for two live buffers that share a byte. A buffer that starts need only be compared
// with its neighbours by offset.
func sweep(buffers []Buffer, offsets []int64) error {
	var starts, ends []moment
	for i := range buffers {
		if buffers[i].Size > 0 {
			buffers[i].pieces(func(lower, upper int64) {
				starts, ends = append(starts, moment{lower, i}), append(ends, moment{upper, i})
			})
		}
	}
	inTime := func(a, b moment) int { return cmp.Compare(a.time, b.time) }
	slices.SortFunc(starts, inTime)
	slices.SortFunc(ends, inTime)
	var live spanList
	next := 0
	for _, s := range starts {
		i := s.id
		for ends[next].time <= s.time {
			live.remove(offsets[ends[next].id])
			next++
		}
		s := span{offset: offsets[i], top: offsets[i] + buffers[i].Size, id: i}
		if other, ok := live.insert(s); !ok {
			a, b := min(i, other.id), max(i, other.id)
			return fmt.Errorf("pack: buffers %d at [%d, %d) and %d at [%d, %d) are live at once and overlap",
				a, offsets[a], offsets[a]+buffers[a].Size, b, offsets[b], offsets[b]+buffers[b].Size)
		}
	}
	return nil
}

// spanList keeps disjoint spans ordered by offset, in chunks of bounded
// length so that a change moves few of them.
type spanList struct{ chunks [][]span }

const spanChunk = 512

// chunk returns the index of the last chunk whose first span is not above the offset, or 0.
func (l *spanList) chunk(offset int64) int {
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i][0].offset > offset })
	return max(i-1, 0)
}

// insert adds a span unless it overlaps one, which it then returns.
func (l *spanList) insert(s span) (span, bool) {
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, append(make([]span, 0, spanChunk), s))
		return span{}, true
	}
	c := l.chunk(s.offset)
	list := l.chunks[c]
	at := sort.Search(len(list), func(i int) bool { return list[i].offset >= s.offset })
	if at > 0 && list[at-1].top > s.offset {
		return list[at-1], false
	}
	if at < len(list) && list[at].offset < s.top {
		return list[at], false
	}
	if at == len(list) && c+1 < len(l.chunks) && l.chunks[c+1][0].offset < s.top {
		return l.chunks[c+1][0], false
	}
	list = slices.Insert(list, at, s)
	l.chunks[c] = list
	if len(list) == spanChunk {
		upper := append(make([]span, 0, spanChunk), list[spanChunk/2:]...)
		l.chunks[c] = list[:spanChunk/2]
		l.chunks = slices.Insert(l.chunks, c+1, upper)
	}
	return span{}, true
}

// remove takes out the span at an offset, which must be there.
func (l *spanList) remove(offset int64) {
	c := l.chunk(offset)
	list := l.chunks[c]
	at := sort.Search(len(list), func(i int) bool { return list[i].offset >= offset })
	list = slices.Delete(list, at, at+1)
	if len(list) == 0 {
		l.chunks = slices.Delete(l.chunks, c, c+1)
		return
	}
	l.chunks[c] = list
}
