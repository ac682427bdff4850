package snapshot

import (
	"cmp"
	"errors"
	"slices"
	"sort"
)

// Moment is the memory at one event.
type Moment struct {
	Event int  // an index into Events; -1: the end of a snapshot without events
	Ran   bool // memory ran out there
	Asked int64
	// Held is the bytes of blocks, Reserved those of the device, and Largest those of the largest free part of a
	// segment.
	Held, Reserved, Largest int64
	Blocks                  int
	Holders                 []Holder // by bytes, the largest first
	Kinds                   []Holder // the same by kind
	Wanted                  int64    // bytes of the request that failed
	Free                    int64    // bytes that the device had left then
}

// Holder is a line of the program whose blocks are there, or a kind of blocks.
type Holder struct {
	Frame  Frame // of the line, or Func alone for code that is not the user's; of a kind, Func
	Kind   string
	Bytes  int64
	Blocks int
}

// The kinds of blocks, as their frames tell.
const (
	Unknown   = "unknown"
	Optimizer = "optimizer"
	Gradients = "backward"
	Forward   = "forward"
	Creation  = "creation of modules"
	Data      = "data"
)

// Worst is the moment that memory ran out for the last time, or else that of the most bytes in blocks.
func (s *Snapshot) Worst() (*Moment, error) {
	b, err := s.start()
	if err != nil {
		return nil, err
	}
	at, most, now := -1, int64(-1), int64(0)
	for _, h := range b.held {
		now += h.size
	}
	sizes := map[int64]int64{}
	for a, h := range b.held {
		sizes[a] = h.size
	}
	ran := false
	for i := range s.Events {
		e := &s.Events[i]
		switch e.Action {
		case Alloc:
			sizes[e.Addr] = s.Conf.Rounded(e.Size)
			if now += sizes[e.Addr]; now > most && !ran {
				at, most = i, now
			}
		case FreeCompleted:
			now -= sizes[e.Addr]
			delete(sizes, e.Addr)
		case OutOfMemory:
			at, ran = i, true
		}
	}
	m := s.moment(b, at, ran)
	if m.Asked > m.Reserved || m.Asked < 0 {
		return nil, errors.New("the blocks take more than the segments have: the events do not lead to the memory in " +
			"the end")
	}
	return m, nil
}

// moment is the memory behind an event; b is that before the first one.
func (s *Snapshot) moment(b *start, at int, ran bool) *Moment {
	for i := range s.Events[:at+1] {
		e := &s.Events[i]
		switch e.Action {
		case Alloc:
			b.held[e.Addr] = &held{addr: e.Addr, size: s.Conf.Rounded(e.Size), asked: e.Size, stream: e.Stream,
				stack: e.Stack, kind: e.Kind}
		case FreeCompleted:
			delete(b.held, e.Addr)
		case SegmentAlloc, SegmentMap:
			b.spans = append(b.spans, span{addr: e.Addr, size: e.Size})
		case SegmentFree, SegmentUnmap:
			b.remove(e.Addr, e.Size)
		}
	}
	m := &Moment{Event: at, Ran: ran, Reserved: s.recorded(at + 1), Largest: b.largest()}
	if ran {
		m.Wanted, m.Free = s.Events[at].Size, s.Events[at].Free
	}
	lines, kinds := map[Frame]*Holder{}, map[string]*Holder{}
	for _, h := range b.held {
		m.Held += h.size
		m.Asked += h.asked
		m.Blocks++
		kind := h.kind
		if kind == "" || kind == "unknown" {
			kind = kindOf(s.Stacks[h.stack])
		}
		add(lines, lineOf(s.Stacks[h.stack]), kind, h.size)
		add(kinds, kind, kind, h.size)
	}
	for f, x := range lines {
		x.Frame = f
	}
	m.Holders, m.Kinds = sorted(lines), sorted(kinds)
	return m
}

// largest is the bytes of the largest free part of a segment.
func (b *start) largest() (most int64) {
	type edge struct{ addr, end int64 }
	var list []edge
	for _, h := range b.held {
		list = append(list, edge{h.addr, h.addr + h.size})
	}
	slices.SortFunc(list, func(x, y edge) int { return cmp.Compare(x.addr, y.addr) })
	slices.SortFunc(b.spans, func(x, y span) int { return cmp.Compare(x.addr, y.addr) })
	for _, x := range b.spans {
		at := x.addr
		for len(list) > 0 && list[0].addr < x.addr+x.size {
			most = max(most, list[0].addr-at)
			at = max(at, list[0].end)
			list = list[1:]
		}
		most = max(most, x.addr+x.size-at)
	}
	return most
}

// add counts a block.
func add[K comparable](to map[K]*Holder, key K, kind string, bytes int64) {
	x := to[key]
	if x == nil {
		x = &Holder{Kind: kind}
		to[key] = x
	}
	if x.Kind != kind {
		x.Kind = min(x.Kind, kind) // a line of several kinds: the same one in every run
	}
	x.Bytes += bytes
	x.Blocks++
}

func sorted[K comparable](from map[K]*Holder) (list []Holder) {
	for _, x := range from {
		list = append(list, *x)
	}
	order := func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Frame.File, b.Frame.File), cmp.Compare(a.Frame.Line, b.Frame.Line),
			cmp.Compare(a.Frame.Func, b.Frame.Func))
	}
	sort.Slice(list, func(i, k int) bool { return order(list[i], list[k]) < 0 })
	return list
}
