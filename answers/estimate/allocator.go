package estimate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"memopt"
	"memopt/answers/estimate/parts"
	"memopt/internal/timelimit"
	"memopt/planner/arena"
	"memopt/planner/pack"
	"memopt/sim/allocator"
	"memopt/view/report"
	"memopt/view/timeline"
)

// Allocator says which allocator serves an estimated step.
type Allocator string

// The allocators.
const (
	// ByRuntime is that of the runtime: memopt's arena, and PyTorch's caching allocator for a step of PyTorch on a GPU
	// that has a reserve.
	ByRuntime Allocator = ""
	// InArena is an arena as memopt plans it: offsets that are known before the step.
	InArena Allocator = "arena"
	// Caching is PyTorch's caching allocator.
	Caching Allocator = "torch"
	// InBFC is the arena of TensorFlow and JAX, growing.
	InBFC Allocator = "bfc"
	// InORT is the arena of ONNX Runtime, growing by doubling; weights lie beside it.
	InORT Allocator = "ort"
)

// Allocators lists them by name.
var Allocators = []Allocator{InArena, Caching, InBFC, InORT}

// allocatorTitles name the allocators in sentences.
var allocatorTitles = map[Allocator]string{InArena: "A planned arena", Caching: "PyTorch's caching allocator",
	InBFC: "The arena of TensorFlow and JAX", InORT: "The arena of ONNX Runtime"}

// Served is how an allocator serves a step.
type Served struct {
	Allocator Allocator
	Peak      allocator.Usage // each number at its highest, in bytes
	// Fragmentation is the share of the reserved bytes that no block held when the most was reserved.
	Fragmentation float64
	// Error is the text of an error where the memory runs out; "" where it does not, or has no end.
	Error string
	// Expandable is the same for PyTorch's allocator with expandable segments; nil where they are on already, and for
	// other allocators.
	Expandable *Served
}

// job is the requests of a step to an allocator.
type job struct {
	held []int64 // bytes of each block that is there before the step and after it
	// events are those of one step. Blocks are numbered from len(held) on.
	events []allocator.Event
	steps  int // that run one after the other
}

// run plays a job through an allocator.
func (j *job) run(name Allocator, conf allocator.Conf, m allocator.Memory) *allocator.Outcome {
	events := make([]allocator.Event, 0, len(j.held)+j.steps*len(j.events))
	var a allocator.Allocator
	switch name {
	case InORT:
		b := allocator.NewBFC(allocator.OnnxRuntime, m)
		for _, n := range j.held {
			if err := b.Reserve(n); err != nil {
				return &allocator.Outcome{Err: err}
			}
		}
		a = b
	case InBFC:
		a = allocator.NewBFC(allocator.TensorFlow, m)
	default:
		a = allocator.NewCaching(conf, m)
	}
	if name != InORT {
		for i, n := range j.held {
			events = append(events, allocator.Event{Block: int32(i), Bytes: n, Step: -1})
		}
	}
	for range j.steps {
		events = append(events, j.events...)
	}
	return allocator.Replay(a, events)
}

// serve says how an allocator serves a job on a device with so much memory (0: without an end) and a reserve.
func (j *job) serve(ctx context.Context, o *Options, name Allocator, m allocator.Memory) *Served {
	if name == InArena {
		return j.pack(ctx)
	}
	s := j.served(name, o.Conf, m)
	if name == Caching && !o.Conf.Expandable {
		conf := o.Conf
		conf.Expandable = true
		s.Expandable = j.served(name, conf, m)
	}
	return s
}

// served is serve for an allocator that has rules of its own. Where memory runs out, the peak is that of a device
// without an end.
func (j *job) served(name Allocator, conf allocator.Conf, m allocator.Memory) *Served {
	out, words := j.run(name, conf, m), ""
	if out.Err != nil {
		words = out.Err.Words
		out = j.run(name, conf, allocator.Memory{})
	}
	return &Served{Allocator: name, Peak: out.Peak, Fragmentation: out.Fragmentation(), Error: words}
}

// pack gives the blocks of a job fixed places, those that stay in one block of the device, the others in another.
func (j *job) pack(ctx context.Context) *Served {
	s := &Served{Allocator: InArena}
	begun := map[int32]int{}
	var buffers []pack.Buffer
	var ends []int
	var held, now int64
	for _, n := range j.held {
		held += arena.Align(n)
		now += n
	}
	s.Peak.Asked = now
	for at, e := range j.events {
		if e.Bytes >= 0 {
			begun[e.Block] = len(buffers)
			buffers = append(buffers, pack.Buffer{Lower: int64(at), Upper: int64(len(j.events)),
				Size: arena.Align(e.Bytes)})
			ends = append(ends, at)
			now += e.Bytes
			s.Peak.Asked = max(s.Peak.Asked, now)
			continue
		}
		b := begun[e.Block]
		buffers[b].Upper = int64(at)
		now -= j.events[ends[b]].Bytes
	}
	height := pack.Greedy(timelimit.Without(ctx), buffers).Height
	s.arena(held, height)
	return s
}

// arena fills in an arena of so many bytes beside blocks that stay.
func (s *Served) arena(held, height int64) {
	s.Peak.Allocated = held + height
	s.Peak.Reserved = held + height + parts.Rounding([]int64{held}, height, arena.Alignment)
	if s.Peak.Reserved > 0 {
		s.Fragmentation = float64(s.Peak.Reserved-s.Peak.Allocated) / float64(s.Peak.Reserved)
	}
}

// job is the requests of a step's plans to an allocator.
func (s *step) job(plans []*memopt.Plan) (*job, error) {
	j := &job{steps: 2}
	s.each(func(_ string, _ kind, n int64) {
		if n > 0 {
			j.held = append(j.held, n)
		}
	})
	if s.master > 0 {
		all := int64(0)
		for _, n := range s.params {
			all += n
		}
		for _, name := range s.sortedParams() {
			j.held = append(j.held, s.params[name]*(s.master/max(all, 1)))
		}
	}
	next := int32(len(j.held))
	for _, p := range plans {
		t, err := timeline.Of(p.Plan)
		if err != nil {
			return nil, err
		}
		j.events, next = append(j.events, eventsOf(t, next)...), next+int32(len(t.Buffers)+len(t.Blocks))
	}
	return j, nil
}

// eventsOf are the events of a planned step: its buffers, and the memory beside them. Blocks are numbered from first
// on.
func eventsOf(t *timeline.Timeline, first int32) (events []allocator.Event) {
	type life struct {
		first, last int32
		bytes       int64
	}
	var lives []life
	for _, b := range t.Buffers {
		lives = append(lives, life{b.First, b.Last, b.Bytes})
	}
	for i := range t.Blocks {
		if b := &t.Blocks[i]; b.Buffer < 0 {
			lives = append(lives, life{b.First, b.Last, b.Bytes})
		}
	}
	slices.SortStableFunc(lives, func(a, b life) int { return cmp.Compare(a.first, b.first) })
	ends := make([][]int32, len(t.Steps))
	at := 0
	for step := range t.Steps {
		for ; at < len(lives) && int(lives[at].first) == step; at++ {
			block := first + int32(at)
			events = append(events, allocator.Event{Block: block, Bytes: lives[at].bytes, Step: int32(step)})
			last := min(int(lives[at].last), len(t.Steps)-1)
			ends[last] = append(ends[last], block)
		}
		for _, block := range ends[step] {
			events = append(events, allocator.Event{Block: block, Bytes: allocator.Free, Step: int32(step)})
		}
	}
	return events
}

// job is the requests of a PyTorch step to an allocator, with the modules of the simulator's last run under so many
// checkpoints: parameters, buffers and inputs, the optimizer's state and the sums of gradients are there; the
// update follows the backward half, and zero_grad frees the gradients.
func (s *torchStep) job(j *job, events []allocator.Event, kept []int32, next int32) *job {
	j.steps = 2
	j.events = events
	take := func(bytes int64) int32 {
		j.events = append(j.events, allocator.Event{Block: next, Bytes: bytes})
		next++
		return next - 1
	}
	give := func(list []int32) {
		for _, b := range list {
			j.events = append(j.events, allocator.Event{Block: b, Bytes: allocator.Free})
		}
	}
	if s.updates() {
		var copies []int32
		for range s.update.copies {
			for _, n := range s.plan.GradientSizes {
				if copies = append(copies, take(n)); !s.update.together && len(copies) == s.update.copies {
					give(copies)
					copies = copies[:0]
				}
			}
		}
		give(copies)
	}
	give(kept)
	return j
}

// heldSizes are the bytes of the blocks that are there before a step of PyTorch and after it.
func (s *torchStep) heldSizes() []int64 {
	list := s.plan.Program.HeldSizes()
	for _, n := range s.plan.GradientSizes {
		for range s.update.states {
			list = append(list, n)
		}
		if s.update.counts {
			list = append(list, countBytes)
		}
		if s.opts.Recipe.Micros > 1 {
			list = append(list, n)
		}
	}
	return list
}

// serve has an allocator serve the step of an outcome, whose parts are those asked for: the device memory that it
// takes beyond them is its rounding, free blocks included.
func (o *Outcome) serve(ctx context.Context, opts *Options, name Allocator, j *job, m allocator.Memory) {
	o.Served = j.serve(ctx, opts, name, m)
	o.reserve(m.Other)
}

// reserve counts the bytes that the allocator takes of the device beyond the parts, beside so many of the reserve.
func (o *Outcome) reserve(reserve int64) {
	o.Parts.Temporaries -= o.Parts.Gaps // of a planned arena
	o.Parts.Gaps, o.Parts.Reserve, o.Parts.Rounding = 0, 0, 0
	o.Parts.Rounding = max(o.Served.Peak.Reserved-o.Parts.Total(), 0)
	o.Parts.Reserve = reserve + o.Parts.Rounding
}

// serve has the allocator that was asked for serve a planned step.
func (s *step) serve(ctx context.Context, out *Outcome) error {
	name := s.opts.Allocator
	switch name {
	case ByRuntime:
		return nil
	case InArena:
		out.Served = &Served{Allocator: InArena}
		asked, held, height := s.master, s.master, int64(0)
		s.each(func(_ string, _ kind, n int64) {
			asked += n
			held += arena.Align(n)
		})
		for _, p := range out.Plans {
			height = max(height, p.Arena.Bytes)
			out.Served.Peak.Asked = max(out.Served.Peak.Asked, asked+p.Planned.Peak.Bytes)
		}
		out.Served.arena(held, height)
		return nil
	}
	j, err := s.job(out.Plans)
	if err != nil {
		return err
	}
	out.serve(ctx, &s.opts, name, j, memoryOf(s.memory, s.reserve))
	return nil
}

// memoryOf is a device with so much memory, 0 for one without an end, and a reserve.
func memoryOf(bytes, reserve int64) allocator.Memory {
	return allocator.Memory{Total: bytes, Other: reserve}
}

// words are sentences about how the allocator serves the step.
func (s *Served) words() (list []string) {
	if s == nil {
		return nil
	}
	free := s.Peak.Reserved - s.Peak.Allocated
	text := fmt.Sprintf("%s: %s are asked for at most, in blocks of %s; it takes %s of the device",
		allocatorTitles[s.Allocator], report.Bytes(s.Peak.Asked), report.Bytes(s.Peak.Allocated),
		report.Bytes(s.Peak.Reserved))
	if free > 0 {
		text += fmt.Sprintf(", %s of it free at that moment", report.Percent(s.Fragmentation))
	}
	text += "."
	if e := s.Expandable; e != nil {
		text += fmt.Sprintf(" With %s it takes %s", expandableOn,
			report.Bytes(e.Peak.Reserved))
		switch {
		case s.Error != "" && e.Error == "":
			text += ", and the step runs"
		case s.Error != "":
			text += ", and memory runs out all the same"
		}
		text += "."
	}
	return []string{text}
}

// json is the form in reports; nil without an allocator.
func (s *Served) json() *parts.AllocatorJSON {
	if s == nil {
		return nil
	}
	out := &parts.AllocatorJSON{Name: string(s.Allocator), Asked: s.Peak.Asked, Allocated: s.Peak.Allocated,
		Reserved: s.Peak.Reserved, Fragmentation: s.Fragmentation, Expandable: s.Expandable.json()}
	if s.Error != "" {
		out.Error = &s.Error
	}
	return out
}
