package torchsnapshot

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"memopt/planner/arena"
	"memopt/symbolic"
	"memopt/view/timeline"
)

// base is the address of the first segment: far from zero, as devices' are, and so that sums with sizes
// stay exact in JavaScript. Segments begin at multiples of granule, as those of PyTorch do.
const (
	base    = 1 << 40
	granule = 2 << 20
)

// words are the texts that are written for each event.
type words struct {
	filename, line, name, action, addr, size, stream, time, frames, category           word
	alloc, requested, completed, segment, address, requestedSize, state, live, passive word
	kinds                                                                              [timeline.NumKinds]word
}

func newWords() (w words) {
	for _, x := range []struct {
		w    *word
		text string
	}{{&w.filename, "filename"}, {&w.line, "line"}, {&w.name, "name"}, {&w.action, "action"}, {&w.addr, "addr"},
		{&w.size, "size"}, {&w.stream, "stream"}, {&w.time, "time_us"}, {&w.frames, "frames"},
		{&w.category, "category"}, {&w.alloc, "alloc"}, {&w.requested, "free_requested"},
		{&w.completed, "free_completed"}, {&w.segment, "segment_alloc"}, {&w.address, "address"},
		{&w.requestedSize, "requested_size"}, {&w.state, "state"}, {&w.live, "active_allocated"},
		{&w.passive, "inactive"}} {
		x.w.text = x.text
	}
	for k := range w.kinds {
		w.kinds[k].text = timeline.Kind(k).String()
	}
	return w
}

// segment is a piece of the device's memory: the bytes that live throughout, the arena, or those beside
// it.
type segment struct {
	what        string
	addr, bytes int64
	held        []held // in the end, in the order of addresses
}

// held is a block that is there.
type held struct {
	block *timeline.Block
	addr  int64
	stack uint32 // the number of its frames
}

// snapshot is the state of the writer.
type snapshot struct {
	pickler
	t        *timeline.Timeline
	words    words
	steps    []stepFrames
	segments [3]segment // throughout, arena, beside
	always   []int64    // addresses of the values that live throughout
}

const (
	throughout = iota
	inArena
	beside
)

// ErrLayout means that a timeline has no layout: no block has an address.
var ErrLayout = errors.New("the timeline has no layout of its arena: pack it first")

// Write writes the snapshot of a step. It keeps no events: memory grows with the nodes alone. The error
// is ErrLayout, symbolic.ErrOverflow where addresses leave 64 bits, or the writer's.
func Write(w io.Writer, t *timeline.Timeline) error {
	if t.Layout == nil {
		return ErrLayout
	}
	s := &snapshot{pickler: pickler{w: bufio.NewWriterSize(w, 256<<10)}, t: t, words: newWords(),
		steps: make([]stepFrames, len(t.Steps))}
	if err := s.settle(); err != nil {
		return err
	}
	s.op(opProto)
	s.op(2)
	s.op(opEmptyDict)
	s.op(opMark)
	s.text("device_traces")
	traces := s.list()
	traces.item()
	s.events()
	traces.done()
	s.text("segments")
	list := s.list()
	for i := range s.segments {
		if s.segments[i].bytes > 0 {
			list.item()
			s.segment(&s.segments[i])
		}
	}
	list.done()
	s.text("allocator_settings")
	s.op(opEmptyDict)
	s.op(opSetItems)
	s.op(opStop)
	return s.w.Flush()
}

// settle gives segments their addresses.
func (s *snapshot) settle() error {
	s.segments = [...]segment{{what: "weights, inputs and states"}, {what: "arena"}, {what: "beside the arena"}}
	sizes := &s.segments
	s.always = make([]int64, len(s.t.Always))
	for i := range s.t.Always {
		s.always[i] = arena.Align(sizes[throughout].bytes)
		sizes[throughout].bytes = sum(s.always[i], s.t.Always[i].Bytes)
	}
	for i := range s.t.Buffers {
		b := &s.t.Buffers[i]
		sizes[inArena].bytes = max(sizes[inArena].bytes, sum(b.Offset, b.Bytes))
	}
	// In the bytes beside the arena, clones' share is there throughout, and subgraphs come on top.
	hidden := s.t.Simulated.Hidden
	for i := range s.t.Steps {
		sizes[beside].bytes = max(sizes[beside].bytes, sum(hidden, s.t.Steps[i].Live[timeline.Subgraphs]))
	}
	at := int64(base)
	for i := range sizes {
		sizes[i].addr = at
		at = sum(at, sizes[i].bytes)
		at = sum(at, granule-1) / granule * granule
	}
	if at >= math.MaxInt64/granule*granule {
		return fmt.Errorf("addresses of a snapshot: %w", symbolic.ErrOverflow)
	}
	for i := range s.always {
		s.always[i] += sizes[throughout].addr
	}
	return nil
}

// sum adds numbers that are not negative, up to the largest one.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// place returns the segment and the address of a block that is not there throughout.
func (s *snapshot) place(b *timeline.Block) (*segment, int64) {
	if at := s.t.Offset(b); at >= 0 {
		return &s.segments[inArena], s.segments[inArena].addr + at
	}
	x := &s.segments[beside]
	if b.Kind == timeline.Subgraphs {
		return x, x.addr + s.t.Simulated.Hidden
	}
	return x, x.addr
}

// segment writes a segment as it is in the end.
func (s *snapshot) segment(g *segment) {
	slices.SortFunc(g.held, func(x, y held) int { return cmp.Compare(x.addr, y.addr) })
	var live int64
	for _, h := range g.held {
		live += h.block.Bytes
	}
	s.op(opEmptyDict)
	s.op(opMark)
	for _, field := range []struct {
		name  string
		value int64
	}{{"device", 0}, {"address", g.addr}, {"total_size", g.bytes}, {"allocated_size", live}, {"active_size", live},
		{"requested_size", live}, {"stream", 0}} {
		s.text(field.name)
		s.int(field.value)
	}
	s.text("segment_type")
	s.text("large")
	s.text("segment_pool_id")
	s.int(0)
	s.int(0)
	s.op(opTuple2)
	s.text("is_expandable")
	s.bool(false)
	s.text("frames")
	list := s.list()
	list.item()
	s.frame(g.what, 0, "planned")
	list.done()
	s.text("blocks")
	s.tile(g)
	s.op(opSetItems)
}

// tile writes the blocks of a segment; the bytes between are inactive.
func (s *snapshot) tile(g *segment) {
	list, at := s.list(), g.addr
	for i := range g.held {
		h := &g.held[i]
		if h.addr > at {
			list.item()
			s.block(at, h.addr-at, nil)
		}
		list.item()
		s.block(h.addr, h.block.Bytes, h)
		at = h.addr + h.block.Bytes
	}
	if end := g.addr + g.bytes; at < end {
		list.item()
		s.block(at, end-at, nil)
	}
	list.done()
}

// block writes a block; a nil h leaves it empty.
func (s *snapshot) block(addr, bytes int64, h *held) {
	w := &s.words
	s.op(opEmptyDict)
	s.op(opMark)
	s.word(&w.address)
	s.int(addr)
	s.word(&w.size)
	s.int(bytes)
	s.word(&w.requestedSize)
	s.int(bytes)
	s.word(&w.state)
	if h == nil {
		s.word(&w.passive)
		s.word(&w.frames)
		s.op(opEmptyList)
	} else {
		s.word(&w.live)
		s.word(&w.frames)
		s.again(h.stack)
	}
	s.op(opSetItems)
}
