package double

import (
	"fmt"
	"slices"

	"memopt/executor/cuda/driver"
)

// NewStream makes a stream; stream 0 is there from the start.
func (d *Double) NewStream() (driver.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams = append(d.streams, stream{})
	return driver.Stream(len(d.streams) - 1), nil
}

// now reports whether work of a stream is to be done at once.
func (d *Double) now(s driver.Stream) bool { return !d.opts.Lazy && !d.streams[s].capturing }

// later queues work.
func (d *Double) later(s driver.Stream, work func() error) error {
	if d.lost != nil {
		return d.lost
	}
	d.streams[s].work = append(d.streams[s].work, work)
	return nil
}

// drain does all work of all streams, one piece of each in turn. An error is for good.
func (d *Double) drain() error {
	for more := true; more && d.lost == nil; {
		more = false
		for i := range d.streams {
			s := &d.streams[i]
			if s.capturing || len(s.work) == 0 {
				continue
			}
			work := s.work[0]
			s.work, more = s.work[1:], true
			if d.lost = work(); d.lost != nil {
				break
			}
		}
	}
	return d.lost
}

// Sync does what was asked for.
func (d *Double) Sync(s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.Syncs++
	if d.streams[s].capturing {
		return fmt.Errorf("double: Sync of a stream that is being captured")
	}
	return d.drain()
}

// CopyIn copies from the host: what src holds now.
func (d *Double) CopyIn(s driver.Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.CopiesIn++
	d.counts.BytesIn += int64(len(src))
	to, err := d.find(dst)
	if err != nil || len(to) != len(src) {
		return fmt.Errorf("copy of %d bytes to %d bytes of the device: %v", len(src), len(dst), err)
	}
	if d.now(s) {
		copy(to, src)
		return nil
	}
	if d.streams[s].capturing && d.isPinned(src) {
		return d.later(s, func() error { copy(to, src); return nil }) // a graph reads it when it is replayed
	}
	kept := slices.Clone(src)
	return d.later(s, func() error { copy(to, kept); return nil })
}

// CopyOut copies to the host.
func (d *Double) CopyOut(s driver.Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.CopiesOut++
	d.counts.BytesOut += int64(len(src))
	if d.streams[s].capturing {
		return fmt.Errorf("double: CopyOut waits, and the stream is being captured")
	}
	if err := d.drain(); err != nil {
		return err
	}
	from, err := d.find(src)
	if err != nil || len(from) != len(dst) {
		return fmt.Errorf("copy of %d bytes of the device to %d bytes: %v", len(src), len(dst), err)
	}
	copy(dst, from)
	return nil
}

// Copy copies within the device.
func (d *Double) Copy(s driver.Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	to, err := d.find(dst)
	if err != nil {
		return err
	}
	from, err := d.find(src)
	if err != nil || len(from) != len(to) {
		return fmt.Errorf("copy of %d bytes to %d bytes within the device: %v", len(src), len(dst), err)
	}
	if d.now(s) {
		copy(to, from)
		return nil
	}
	return d.later(s, func() error { copy(to, from); return nil })
}

// Fill sets bytes.
func (d *Double) Fill(s driver.Stream, dst []byte, value byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	to, err := d.find(dst)
	if err != nil {
		return err
	}
	if d.now(s) {
		fill(to, value)
		return nil
	}
	return d.later(s, func() error { fill(to, value); return nil })
}

// NewEvent makes an event.
func (d *Double) NewEvent() (driver.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, 0)
	return driver.Event(len(d.events)), nil
}

// Record notes when the event happens, on a clock that counts events.
func (d *Double) Record(e driver.Event, s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.later(s, func() error {
		d.clock++
		d.events[e-1] = d.clock
		return nil
	})
}

// Wait orders two streams: all work that was asked for so far is done first.
func (d *Double) Wait(driver.Stream, driver.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.drain()
}

// Elapsed counts a millisecond for each event.
func (d *Double) Elapsed(from, to driver.Event) (float64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.drain(); err != nil {
		return 0, err
	}
	return float64(d.events[to-1] - d.events[from-1]), nil
}

// BeginCapture notes what comes in place of doing it.
func (d *Double) BeginCapture(s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.drain(); err != nil {
		return err
	}
	d.streams[s].capturing = true
	return nil
}

// EndCapture makes a graph.
func (d *Double) EndCapture(s driver.Stream) (driver.Graph, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.streams[s].capturing {
		return 0, fmt.Errorf("double: the stream is not being captured")
	}
	d.graphs = append(d.graphs, d.streams[s].work)
	d.streams[s] = stream{}
	return driver.Graph(len(d.graphs)), nil
}

// Replay does what was captured.
func (d *Double) Replay(g driver.Graph, s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.Replays++
	for _, work := range d.graphs[g-1] {
		if err := d.later(s, work); err != nil {
			return err
		}
	}
	if d.opts.Lazy {
		return nil
	}
	return d.drain()
}

// FreeGraph forgets a graph.
func (d *Double) FreeGraph(g driver.Graph) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.graphs[g-1] = nil
	return nil
}
