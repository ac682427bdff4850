package xla

import (
	"cmp"
	"slices"
)

// maxPacked bounds the blocks that are packed.
const maxPacked = 8_000

// pack gives each block an offset, and returns the size of the heap: the smaller of two packings, by decreasing size
// and by decreasing length of life (GlobalDecreasingSizeBestFitHeap, kSpatial and kTemporal). ok is false where the
// blocks are too many.
func pack(blocks []block) (size int64, ok bool) {
	if len(blocks) > maxPacked {
		return 0, false
	}
	spatial := packBy(blocks, func(a, b *block) int {
		return cmp.Or(cmp.Compare(b.tenants[0].bytes, a.tenants[0].bytes),
			cmp.Compare(b.tenants[0].to-b.tenants[0].from, a.tenants[0].to-a.tenants[0].from))
	})
	offsets := make([]int64, len(blocks))
	for i := range blocks {
		offsets[i] = blocks[i].offset
	}
	temporal := packBy(blocks, func(a, b *block) int {
		return cmp.Or(cmp.Compare(b.end()-b.tenants[0].from, a.end()-a.tenants[0].from),
			cmp.Compare(b.tenants[0].bytes, a.tenants[0].bytes))
	})
	if temporal < spatial {
		return temporal, true
	}
	for i := range blocks {
		blocks[i].offset = offsets[i]
	}
	return spatial, true
}

func (b *block) end() int64 {
	end := int64(0)
	for _, t := range b.tenants {
		end = max(end, t.to)
	}
	return end
}

// overlaps reports whether two blocks are in use at the same time.
func (b *block) overlaps(o *block) bool {
	for x, y := 0, 0; x < len(b.tenants) && y < len(o.tenants); {
		s, t := &b.tenants[x], &o.tenants[y]
		switch {
		case s.to < t.from:
			x++
		case t.to < s.from:
			y++
		default:
			return true
		}
	}
	return false
}

// packBy puts the blocks, in an order, each into the smallest gap that it fits in.
func packBy(blocks []block, order func(a, b *block) int) (size int64) {
	sorted := make([]*block, len(blocks))
	for i := range blocks {
		sorted[i] = &blocks[i]
	}
	slices.SortStableFunc(sorted, order)
	placed := make([]*block, 0, len(blocks)) // by offset
	for _, b := range sorted {
		best, gap := int64(0), int64(-1)
		free := int64(0) // the end of the buffers below
		for _, o := range placed {
			if !b.overlaps(o) {
				continue
			}
			if room := o.offset - free; room >= b.bytes && (gap < 0 || room < gap) {
				best, gap = free, room
			}
			free = max(free, (o.offset+o.bytes+alignment-1)/alignment*alignment)
		}
		if gap < 0 {
			best = free
		}
		b.offset = best
		size = max(size, best+b.bytes)
		at, _ := slices.BinarySearchFunc(placed, b, func(x, y *block) int { return cmp.Compare(x.offset, y.offset) })
		placed = slices.Insert(placed, at, b)
	}
	return size
}
