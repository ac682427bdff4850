package snapshot

import (
	"context"

	"memopt/sim/allocator"
)

// Replayed is how the rules of the allocator served the events of a snapshot.
type Replayed struct {
	Peak allocator.Usage // each number at its highest
	// Reserved and Recorded are the bytes of the device at the end, by the rules and by the events.
	Reserved, Recorded int64
	RecordedPeak       int64
	// Off is the largest difference of both at any event, as a share of RecordedPeak.
	Off float64
	// Ran is the event that memory ran out at, an index into Events; -1: it did not.
	Ran int
}

// polls is how many events are replayed between two looks at a context.
const polls = 1 << 12

// Replay plays the events with the options that the program ran with. The device gives and takes segments back when the
// events say so; the rules say which requests need one, and its size. A context that is done ends it with its
// error.
func (s *Snapshot) Replay(ctx context.Context) (*Replayed, error) {
	return s.replay(ctx, s.Conf, allocator.Memory{}, len(s.Events))
}

// With plays the events up to one, which ran out of memory, with other options on the device of that moment, and says
// in Ran whether memory runs out there, too, or before.
func (s *Snapshot) With(ctx context.Context, conf allocator.Conf, oom int) (*Replayed, error) {
	recorded := s.recorded(oom)
	m := allocator.Memory{Total: recorded + s.Events[oom].Free}
	return s.replay(ctx, conf, m, oom+1)
}

// Expanding plays all events with expandable segments on a device without an end.
func (s *Snapshot) Expanding(ctx context.Context) (*Replayed, error) {
	conf := s.Conf
	conf.Expandable = true
	return s.replay(ctx, conf, allocator.Memory{}, len(s.Events))
}

// recorded is the bytes of the device before an event.
func (s *Snapshot) recorded(at int) (n int64) {
	for i := range s.Segments {
		n += s.Segments[i].Size
	}
	for i := len(s.Events) - 1; i >= at; i-- {
		n -= s.Events[i].device()
	}
	return n
}

// device is by how many bytes an event raises those that the allocator has of the device.
func (e *Event) device() int64 {
	switch e.Action {
	case SegmentAlloc, SegmentMap:
		return e.Size
	case SegmentFree, SegmentUnmap:
		return -e.Size
	}
	return 0
}

// player plays events.
type player struct {
	s       *Snapshot
	c       *allocator.Caching
	blocks  map[int64]*taken  // by the address of the recording
	offered map[offer][]int64 // addresses of segments that the recording took, and that no request has yet
	work    int
}

// taken is a block of the allocator.
type taken struct {
	allocator.Block
	requested bool // the program has given it up
}

// give gives a block up, and makes it free.
func (p *player) give(b *taken) {
	p.request(b)
	p.c.Complete(b.Block)
}

// request gives a block up.
func (p *player) request(b *taken) {
	if !b.requested {
		p.c.Request(b.Block)
		b.requested = true
	}
}

// offer is a segment that a request may want.
type offer struct {
	bytes  int64
	stream allocator.Stream
}

// replay plays the first events.
func (s *Snapshot) replay(ctx context.Context, conf allocator.Conf, m allocator.Memory, events int) (*Replayed, error) {
	begin, err := s.start()
	if err != nil {
		return nil, err
	}
	p := &player{s: s, c: allocator.NewCaching(conf, m), offered: map[offer][]int64{}}
	same := conf == s.Conf && m.Total == 0
	p.blocks = begin.restore(p.c)
	if same {
		p.c.Offer = p.take
	}
	r := &Replayed{Ran: -1, Recorded: s.recorded(0), Peak: p.c.Usage()}
	r.RecordedPeak = r.Recorded
	worst := int64(0)
	for i := range s.Events[:events] {
		if i%polls == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e := &s.Events[i]
		r.Recorded += e.device()
		r.RecordedPeak = max(r.RecordedPeak, r.Recorded)
		ok, err := p.play(i, e, same)
		if err != nil {
			return nil, err
		}
		u := p.c.Usage()
		r.Peak.Asked = max(r.Peak.Asked, u.Asked)
		r.Peak.Allocated = max(r.Peak.Allocated, u.Allocated)
		r.Peak.Reserved = max(r.Peak.Reserved, u.Reserved)
		r.Reserved = u.Reserved
		if !ok {
			r.Ran = i
			break
		}
		if settled := e.Action == Alloc || e.Action == FreeCompleted; settled {
			worst = max(worst, abs(u.Reserved-r.Recorded))
		}
	}
	if r.RecordedPeak > 0 {
		r.Off = float64(worst) / float64(r.RecordedPeak)
	}
	return r, nil
}

func abs(n int64) int64 { return max(n, -n) }

// take is the address of a segment that the recording took for a request.
func (p *player) take(bytes int64, s allocator.Stream) (int64, bool) {
	key := offer{bytes, s}
	list := p.offered[key]
	if len(list) == 0 {
		return 0, false
	}
	p.offered[key] = list[1:]
	return list[0], true
}

// play plays an event, and reports whether there was memory for it. same says that the allocator has the options of
// the recording.
func (p *player) play(i int, e *Event, same bool) (bool, error) {
	switch e.Action {
	case Alloc:
		b, err := p.c.Alloc(e.Size, e.Stream)
		if err != nil {
			return false, nil
		}
		if old, ok := p.blocks[e.Addr]; ok { // its end is not among the events
			p.give(old)
		}
		p.blocks[e.Addr] = &taken{Block: b}
	case FreeRequested:
		if b, ok := p.blocks[e.Addr]; ok {
			p.request(b)
		}
	case FreeCompleted:
		if b, ok := p.blocks[e.Addr]; ok {
			p.give(b)
			delete(p.blocks, e.Addr)
		}
	case SegmentAlloc:
		key := offer{e.Size, e.Stream}
		p.offered[key] = append(p.offered[key], e.Addr)
	case SegmentFree, SegmentUnmap:
		if p.work += p.c.Pieces(); p.work > mostWork {
			return false, errWork
		}
		switch {
		case same:
			p.c.ReleaseAt(e.Addr, e.Size)
		case p.explicit(i):
			p.c.EmptyCache()
		}
	case OutOfMemory:
		if !same {
			_, err := p.c.Alloc(e.Size, e.Stream)
			return err == nil, nil
		}
	}
	return true, nil
}

// explicit reports whether the program gave memory back, and not a request that needed it.
func (p *player) explicit(i int) bool {
	for _, e := range p.s.Events[i+1 : min(i+1+1<<10, len(p.s.Events))] {
		switch e.Action {
		case SegmentFree, SegmentUnmap, FreeCompleted:
			continue
		case SegmentAlloc, SegmentMap, OutOfMemory:
			return false
		}
		return true
	}
	return true
}
