package snapshot

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"memopt/sim/allocator"
)

// Frame is a line of a program.
type Frame struct {
	File string
	Line int64
	Func string
}

// Action is the kind of an event.
type Action uint8

// The actions.
const (
	Other         Action = iota // no effect on memory
	Alloc                       // a block was handed out
	FreeRequested               // the program gave it up
	FreeCompleted               // and no stream uses it any more
	SegmentAlloc                // a segment was taken of the device
	SegmentFree
	SegmentMap // pages of an expandable segment were taken of the device
	SegmentUnmap
	OutOfMemory // a request failed
)

var actions = map[string]Action{"alloc": Alloc, "free_requested": FreeRequested, "free_completed": FreeCompleted,
	"free": FreeCompleted, "segment_alloc": SegmentAlloc, "segment_free": SegmentFree, "segment_map": SegmentMap,
	"segment_unmap": SegmentUnmap, "oom": OutOfMemory}

// Event is one of the trace.
type Event struct {
	Action Action
	Addr   int64
	Size   int64 // bytes
	Free   int64 // of OutOfMemory, bytes that the device had left
	Stream allocator.Stream
	Stack  int32  // of Snapshot.Stacks; 0: no frames
	Kind   string // the category, where the recording has one
}

// Block is a part of a segment.
type Block struct {
	Addr, Size, Asked int64
	Held              bool // in use, or waiting for streams
	Stack             int32
}

// Segment is memory of the device.
type Segment struct {
	Addr, Size int64
	Stream     allocator.Stream
	Large      bool
	Expandable bool
	Blocks     []Block
}

// Snapshot is the memory of one device, and the events before.
type Snapshot struct {
	Device   int
	Segments []Segment // in the end
	Events   []Event
	Stacks   [][]Frame // the innermost frame first; the first one has no frames
	Conf     allocator.Conf
	Settings string // of the allocator, as the program set them
}

// mostObjects bounds the events, blocks and frames of a snapshot: a pickle may name one object many times.
const mostObjects = 1 << 25

// errForm says that a pickle is no snapshot.
var errForm = errors.New("wanted a snapshot as torch.cuda.memory._dump_snapshot writes it: a dict with segments and " +
	"device_traces")

// reader makes a snapshot of plain data.
type reader struct {
	s      *Snapshot
	count  int
	stacks map[*list]int32
}

// Read reads a snapshot; of several devices, the one with the most bytes.
func Read(data []byte) (*Snapshot, error) {
	x, err := unpickle(data)
	if err != nil {
		return nil, err
	}
	r := &reader{s: &Snapshot{Stacks: make([][]Frame, 1)}, stacks: map[*list]int32{}}
	top, ok := x.(dict)
	if !ok {
		return nil, errForm
	}
	segments, ok := top["segments"].(*list)
	if !ok {
		return nil, errForm
	}
	traces, _ := top["device_traces"].(*list)
	r.s.Device = device(segments, traces)
	if err := r.segments(segments); err != nil {
		return nil, err
	}
	if traces != nil && r.s.Device < len(traces.items) {
		if err := r.trace(traces.items[r.s.Device]); err != nil {
			return nil, err
		}
	}
	settings, _ := top["allocator_settings"].(dict)
	return r.s, r.conf(settings)
}

// device is the device whose segments have the most bytes, else the first one with events.
func device(segments, traces *list) (best int) {
	sums := map[int]int64{}
	for _, x := range segments.items {
		if d, ok := x.(dict); ok {
			id, _ := d["device"].(int64)
			n, _ := d["total_size"].(int64)
			if id < 0 || id > math.MaxInt32 {
				continue
			}
			if sums[int(id)] += n; sums[int(id)] > sums[best] || sums[int(id)] == sums[best] && int(id) < best {
				best = int(id)
			}
		}
	}
	if len(sums) == 0 && traces != nil {
		for i, x := range traces.items {
			if l, ok := x.(*list); ok && len(l.items) > 0 {
				return i
			}
		}
	}
	return best
}

// one counts an object.
func (r *reader) one() error {
	if r.count++; r.count > mostObjects {
		return fmt.Errorf("the snapshot has more than %d events, blocks and frames", mostObjects)
	}
	return nil
}

// bytes is a number of bytes or an address of a dict.
func bytesOf(d dict, key string) (int64, error) {
	switch n := d[key].(type) {
	case int64:
		if n >= 0 && n < 1<<62 {
			return n, nil
		}
		return 0, fmt.Errorf("%s is %d", key, n)
	case nil, none:
		return 0, nil
	}
	return 0, fmt.Errorf("%s is no number", key)
}

// stream is the stream of a segment or an event, and its private pool.
func stream(d dict, pool string) (s allocator.Stream) {
	s.ID, _ = d["stream"].(int64)
	if l, ok := d[pool].(*list); ok && len(l.items) == 2 {
		a, _ := l.items[0].(int64)
		b, _ := l.items[1].(int64)
		s.Pool = a<<32 ^ b
	}
	return s
}

// segments reads the memory in the end.
func (r *reader) segments(l *list) error {
	for i, x := range l.items {
		d, ok := x.(dict)
		if !ok {
			return fmt.Errorf("segment %d is no dict", i)
		}
		if id, _ := d["device"].(int64); int(id) != r.s.Device {
			continue
		}
		if err := r.segment(d); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
	}
	return nil
}

func (r *reader) segment(d dict) (err error) {
	s := Segment{Stream: stream(d, "segment_pool_id"), Large: d["segment_type"] != "small",
		Expandable: d["is_expandable"] == true}
	if s.Addr, err = bytesOf(d, "address"); err != nil {
		return err
	}
	if s.Size, err = bytesOf(d, "total_size"); err != nil {
		return err
	}
	blocks, _ := d["blocks"].(*list)
	if blocks == nil {
		return errors.New("has no blocks")
	}
	at := s.Addr
	for i, x := range blocks.items {
		b, ok := x.(dict)
		if !ok {
			return fmt.Errorf("block %d is no dict", i)
		}
		if err := r.one(); err != nil {
			return err
		}
		v := Block{Addr: at, Held: b["state"] != "inactive"}
		if v.Size, err = bytesOf(b, "size"); err != nil {
			return err
		}
		if v.Size > s.Addr+s.Size-at {
			return fmt.Errorf("block %d reaches beyond the segment", i)
		}
		if v.Asked, err = bytesOf(b, "requested_size"); err != nil {
			return err
		}
		frames, _ := b["frames"].(*list)
		if v.Stack, err = r.stack(frames); err != nil {
			return err
		}
		at += v.Size
		s.Blocks = append(s.Blocks, v)
	}
	r.s.Segments = append(r.s.Segments, s)
	return r.one()
}

// trace reads the events.
func (r *reader) trace(x any) error {
	l, ok := x.(*list)
	if !ok {
		return errForm
	}
	for i, x := range l.items {
		d, ok := x.(dict)
		if !ok {
			return fmt.Errorf("event %d is no dict", i)
		}
		if err := r.event(d); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

func (r *reader) event(d dict) (err error) {
	action, _ := d["action"].(string)
	e := Event{Action: actions[action], Stream: stream(d, "pool_id")}
	if err := r.one(); err != nil || e.Action == Other {
		return err
	}
	if e.Addr, err = bytesOf(d, "addr"); err != nil {
		return err
	}
	if e.Size, err = bytesOf(d, "size"); err != nil {
		return err
	}
	if e.Free, err = bytesOf(d, "device_free"); err != nil {
		return err
	}
	e.Kind, _ = d["category"].(string)
	frames, _ := d["frames"].(*list)
	if e.Stack, err = r.stack(frames); err != nil {
		return err
	}
	r.s.Events = append(r.s.Events, e)
	return nil
}

// stack reads frames; those of one object are one stack.
func (r *reader) stack(l *list) (int32, error) {
	if l == nil || len(l.items) == 0 {
		return 0, nil
	}
	if n, ok := r.stacks[l]; ok {
		return n, nil
	}
	frames := make([]Frame, 0, len(l.items))
	for _, x := range l.items {
		if err := r.one(); err != nil {
			return 0, err
		}
		d, _ := x.(dict)
		f := Frame{}
		f.File, _ = d["filename"].(string)
		f.Func, _ = d["name"].(string)
		f.Line, _ = d["line"].(int64)
		frames = append(frames, f)
	}
	n := int32(len(r.s.Stacks))
	r.s.Stacks = append(r.s.Stacks, frames)
	r.stacks[l] = n
	return n, nil
}

// conf reads the options that the program ran with.
func (r *reader) conf(d dict) (err error) {
	for _, key := range []string{"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} {
		if text, ok := d[key].(string); ok && strings.TrimSpace(text) != "" {
			r.s.Settings = text
		}
	}
	if r.s.Conf, err = allocator.ParseConf(r.s.Settings); err != nil {
		return fmt.Errorf("options of the allocator, %q: %w", r.s.Settings, err)
	}
	if on, ok := d["expandable_segments"].(bool); ok {
		r.s.Conf.Expandable = on
	}
	return nil
}
