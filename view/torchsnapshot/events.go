package torchsnapshot

import (
	"memopt/graph"
	"memopt/view/timeline"
)

// unknown is the category that the page looks for among those of events.
const unknown = "unknown"

// events writes the allocator's events: it gets its segments, allocates the values that live throughout,
// and then, as each node begins, frees values without later readers and allocates the node's outputs.
func (s *snapshot) events() {
	list := s.list()
	for i := range s.segments {
		if g := &s.segments[i]; g.bytes > 0 {
			list.item()
			s.begin(&s.words.segment, g.addr, g.bytes, 0)
			frames := s.list()
			frames.item()
			s.frame(g.what, 0, "planned")
			frames.done()
			s.op(opSetItems)
		}
	}
	list.item()
	s.snapshotEvent()
	for i := range s.t.Always {
		list.item()
		h := held{block: &s.t.Always[i], addr: s.always[i]}
		s.alloc(&h, 0)
		g := &s.segments[throughout]
		g.held = append(g.held, h)
	}
	s.run(&list)
	list.done()
}

// snapshotEvent writes the event with the category that the page looks for. It has no effect.
func (s *snapshot) snapshotEvent() {
	action := word{text: "snapshot"}
	s.begin(&action, s.segments[throughout].addr, 0, 0)
	s.op(opEmptyList)
	s.word(&s.words.category)
	s.text(unknown)
	s.op(opSetItems)
}

// run writes the events of the steps.
func (s *snapshot) run(list *list) {
	t := s.t
	ends, next := endings(t)
	stacks := make([]uint32, len(t.Blocks))
	block := 0
	for i := range t.Steps {
		now := int64(t.Steps[i].Start * 1e6)
		if i > 0 {
			for b := ends[i-1]; b != 0; b = next[b-1] {
				_, addr := s.place(&t.Blocks[b-1])
				s.free(list, &held{&t.Blocks[b-1], addr, stacks[b-1]}, now)
			}
		}
		for ; block < len(t.Blocks) && int(t.Blocks[block].First) == i; block++ {
			g, addr := s.place(&t.Blocks[block])
			h := held{block: &t.Blocks[block], addr: addr}
			list.item()
			s.alloc(&h, now)
			if stacks[block] = h.stack; int(h.block.Last) == len(t.Steps)-1 {
				g.held = append(g.held, h)
			}
		}
	}
}

// endings lists the blocks by their last steps, as one past an index each: the first by step, the next
// one by block.
func endings(t *timeline.Timeline) (first, next []int32) {
	first, next = make([]int32, len(t.Steps)), make([]int32, len(t.Blocks))
	for i := len(t.Blocks) - 1; i >= 0; i-- {
		at := t.Blocks[i].Last
		next[i], first[at] = first[at], int32(i)+1
	}
	return first, next
}

// alloc writes that a block is allocated, and notes its frames.
func (s *snapshot) alloc(h *held, time int64) {
	s.begin(&s.words.alloc, h.addr, h.block.Bytes, time)
	s.stack(h.block)
	h.stack = s.keep()
	s.word(&s.words.category)
	s.word(&s.words.kinds[h.block.Kind])
	s.op(opSetItems)
}

// free writes that a block is freed: requested and completed at once.
func (s *snapshot) free(list *list, h *held, time int64) {
	for _, action := range []*word{&s.words.requested, &s.words.completed} {
		list.item()
		s.begin(action, h.addr, h.block.Bytes, time)
		s.again(h.stack)
		s.op(opSetItems)
	}
}

// begin writes an event up to its frames.
func (s *snapshot) begin(action *word, addr, size, time int64) {
	w := &s.words
	s.op(opEmptyDict)
	s.op(opMark)
	s.word(&w.action)
	s.word(action)
	s.word(&w.addr)
	s.int(addr)
	s.word(&w.size)
	s.int(size)
	s.word(&w.stream)
	s.int(0)
	s.word(&w.time)
	s.int(time)
	s.word(&w.frames)
}

// stack writes the frames of a block, the innermost first: its value, the last reader, the producer, and
// the layer.
func (s *snapshot) stack(b *timeline.Block) {
	list := s.list()
	list.item()
	s.frame(b.Name, int64(b.First), b.Kind.String())
	if b.Reader >= 0 {
		list.item()
		s.once(&s.steps[b.Reader].reader, func() { s.stepFrame("last read by ", b.Reader) })
	}
	if b.Made < 0 {
		if layer := s.t.Layer(b); layer != graph.NoLayer {
			list.item()
			s.frame(layer, 0, "layer")
		}
		list.done()
		return
	}
	list.item()
	s.once(&s.steps[b.Made].maker, func() { s.stepFrame("made by ", b.Made) })
	if layer := s.t.Steps[b.Made].Layer; layer != graph.NoLayer {
		list.item()
		s.once(&s.steps[b.Made].layer, func() { s.frame(layer, int64(b.Made), "layer") })
	}
	list.done()
}

// stepFrame writes the frame of a step.
func (s *snapshot) stepFrame(what string, at int32) {
	x := &s.t.Steps[at]
	s.frame(x.Name, int64(at), what+x.Op)
}
