package snapshot

import (
	"cmp"
	"errors"
	"slices"

	"memopt/sim/allocator"
)

// held is a block that is there.
type held struct {
	addr, size, asked int64
	stream            allocator.Stream
	stack             int32
	kind              string
	waits             bool // for streams
	exact             bool // the size is that of the block; else it follows from the bytes that were asked for
}

// span is memory of the device.
type span struct {
	addr, size        int64
	stream            allocator.Stream
	large, expandable bool
}

// start is the memory before the first event.
type start struct {
	held  map[int64]*held
	spans []span // by address
}

// mostWork bounds the work of walks through spans, which a pickle may make long.
const mostWork = 1 << 28

// errWork says that a snapshot takes too long.
var errWork = errors.New("the snapshot has too many segments for its events")

// start finds the memory before the first event: that in the end, with the events undone from the last one on.
func (s *Snapshot) start() (*start, error) {
	b := &start{held: map[int64]*held{}}
	large := map[allocator.Stream]bool{}
	for i := range s.Segments {
		g := &s.Segments[i]
		b.spans = append(b.spans, span{g.Addr, g.Size, g.Stream, g.Large, g.Expandable})
		large[g.Stream] = large[g.Stream] || g.Large
		for _, x := range g.Blocks {
			if x.Held {
				b.held[x.Addr] = &held{addr: x.Addr, size: x.Size, asked: x.Asked, stream: g.Stream, stack: x.Stack,
					exact: true}
			}
		}
	}
	work := 0
	for i := len(s.Events) - 1; i >= 0; i-- {
		if work > mostWork {
			return nil, errWork
		}
		e := &s.Events[i]
		switch e.Action {
		case Alloc:
			delete(b.held, e.Addr)
		case FreeCompleted:
			b.held[e.Addr] = &held{addr: e.Addr, size: s.Conf.Rounded(e.Size), asked: e.Size, stream: e.Stream,
				stack: e.Stack, kind: e.Kind, waits: true}
		case FreeRequested:
			if h := b.held[e.Addr]; h != nil {
				h.waits = false
			}
		case SegmentAlloc, SegmentMap:
			work += len(b.spans)
			b.remove(e.Addr, e.Size)
		case SegmentFree, SegmentUnmap:
			work += len(b.spans)
			b.spans = append(b.spans, span{e.Addr, e.Size, e.Stream, e.Size > 2<<20, e.Action == SegmentUnmap})
		}
	}
	slices.SortFunc(b.spans, func(x, y span) int { return cmp.Compare(x.addr, y.addr) })
	for i := 1; i < len(b.spans); i++ {
		if x := &b.spans[i-1]; b.spans[i].addr < x.addr+x.size {
			return nil, errors.New("two segments share addresses: the events do not lead to the memory in the end")
		}
	}
	return b, nil
}

// remove takes addresses out of the spans.
func (b *start) remove(addr, size int64) {
	var kept []span
	for _, x := range b.spans {
		end := x.addr + x.size
		if addr+size <= x.addr || end <= addr {
			kept = append(kept, x)
			continue
		}
		for _, rest := range [2][2]int64{{x.addr, addr}, {addr + size, end}} {
			if rest[0] < rest[1] {
				y := x
				y.addr, y.size = rest[0], rest[1]-rest[0]
				kept = append(kept, y)
			}
		}
	}
	b.spans = kept
}

// restore gives an allocator the memory before the first event, and returns the blocks by address.
func (b *start) restore(c *allocator.Caching) map[int64]*taken {
	var list []*held
	for _, h := range b.held {
		list = append(list, h)
	}
	slices.SortFunc(list, func(x, y *held) int { return cmp.Compare(x.addr, y.addr) })
	blocks := map[int64]*taken{}
	for i := 0; i < len(b.spans); {
		j := i + 1
		for j < len(b.spans) && b.spans[i].grows(&b.spans[j]) { // one segment, with holes
			j++
		}
		var pieces []allocator.Piece
		at := b.spans[i].addr
		for _, x := range b.spans[i:j] {
			if at < x.addr {
				pieces = append(pieces, allocator.Piece{Addr: at, Size: x.addr - at, Hole: true})
			}
			pieces = x.pieces(pieces, &list)
			at = x.addr + x.size
		}
		if b.spans[i].expandable {
			room := int64(1) << 40
			if j < len(b.spans) {
				room = (b.spans[j].addr - at) / (40 << 20) * (40 << 20)
			}
			if room > 0 {
				pieces = append(pieces, allocator.Piece{Addr: at, Size: room, Hole: true})
			}
		}
		for _, x := range c.Restore(b.spans[i].stream, b.spans[i].large, b.spans[i].expandable, pieces) {
			waits := b.held[x.Address()].waits
			if blocks[x.Address()] = (&taken{x, waits}); waits {
				c.Request(x)
			}
		}
		i = j
	}
	return blocks
}

// grows reports whether another span may lie in the same expandable segment.
func (x *span) grows(y *span) bool {
	return x.expandable && y.expandable && x.stream == y.stream && x.large == y.large
}

// pieces cuts a span into blocks and free memory. Blocks are taken from the list.
func (x *span) pieces(to []allocator.Piece, list *[]*held) []allocator.Piece {
	const mostRest = 1 << 20 // the rest of a large block that is not cut off
	at, end := x.addr, x.addr+x.size
	for ; len(*list) > 0 && (*list)[0].addr < end; *list = (*list)[1:] {
		h := (*list)[0]
		if h.addr < at { // of no segment, or in another block
			continue
		}
		if at < h.addr {
			to = append(to, allocator.Piece{Addr: at, Size: h.addr - at})
		}
		next := end
		if len(*list) > 1 {
			next = min(next, (*list)[1].addr)
		}
		size := min(h.size, next-h.addr)
		if !h.exact && x.large && !x.expandable && next-h.addr-size <= mostRest {
			size = next - h.addr
		}
		if size <= 0 {
			continue
		}
		to = append(to, allocator.Piece{Addr: h.addr, Size: size, Asked: h.asked, Held: true})
		at = h.addr + size
	}
	if at < end {
		to = append(to, allocator.Piece{Addr: at, Size: end - at})
	}
	return to
}
