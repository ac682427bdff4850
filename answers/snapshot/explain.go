package snapshot

import (
	"context"

	sim "memopt/sim/snapshot"
)

// Result explains a snapshot.
type Result struct {
	Snapshot *sim.Snapshot
	*sim.Moment
	// Replay is that of all events, by the allocator's rules; nil for a snapshot without events.
	Replay *sim.Replayed
	// Expandable is the same with expandable segments: up to the moment that memory ran out, on the device of that
	// moment, or of all events; nil where they were on, or without events.
	Expandable *sim.Replayed
	Cause      Cause
}

// Cause says why memory ran out.
type Cause string

// The causes.
const (
	NoCause    Cause = ""              // it did not
	Fragments  Cause = "fragmentation" // enough was free, in pieces
	LiveBlocks Cause = "live_bytes"    // too little was free
)

// Explain explains a snapshot. The error is that of a snapshot that contradicts itself, or the context's.
func Explain(ctx context.Context, s *sim.Snapshot) (*Result, error) {
	r := &Result{Snapshot: s}
	var err error
	if r.Moment, err = s.Worst(); err != nil || len(s.Events) == 0 {
		return r, err
	}
	if r.Replay, err = s.Replay(ctx); err != nil {
		return nil, err
	}
	if r.Ran {
		if r.Cause = LiveBlocks; r.Wanted <= r.free() {
			r.Cause = Fragments
		}
	}
	switch {
	case s.Conf.Expandable:
	case r.Ran:
		conf := s.Conf
		conf.Expandable = true
		r.Expandable, err = s.With(ctx, conf, r.Event)
	default:
		r.Expandable, err = s.Expanding(ctx)
	}
	return r, err
}

// free is the bytes that no block held then, in segments and of the device.
func (r *Result) free() int64 { return r.Reserved - r.Held + r.Free }
