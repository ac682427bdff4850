package double

import (
	"errors"
	"math/bits"

	"memopt/executor/cuda/driver"
)

// stream is a queue of work.
type stream struct {
	work  []piece
	graph *graph // the capture that the stream's work is recorded in, or nil
}

// piece is work of a stream, or a place where streams meet.
type piece struct {
	do     func() error
	record *mark // happens when the stream comes here
	wait   *mark // the stream goes on when it has happened
}

// mark is an event as one call of Record has left it.
type mark struct {
	queued bool          // in the work of a stream; else it happened when it was asked for, or never was
	stream driver.Stream // where it is queued
	graph  *graph        // the capture that recorded it, or nil
	at     int           // when it happened; 0 if it has not
}

// now reports whether work of a stream is to be done at once.
func (d *Double) now(s driver.Stream) bool { return !d.opts.Lazy && d.streams[s].graph == nil }

// later queues work.
func (d *Double) later(s driver.Stream, work func() error) error { return d.queue(s, piece{do: work}) }

func (d *Double) queue(s driver.Stream, p piece) error {
	if d.lost == nil {
		d.streams[s].work = append(d.streams[s].work, p)
	}
	return d.lost
}

// run does all work of a stream, and of others as far as it waits for them. Every other time the
// other streams, which no event orders with it, run as early as possible; else they stay where they
// are. The times follow the Thue-Morse sequence, so that both cases occur however often a step
// waits.
func (d *Double) run(s driver.Stream) error {
	d.waits++
	early := bits.OnesCount(d.waits)%2 == 0
	for {
		if early {
			d.runOthers(s)
		}
		if d.lost != nil || len(d.streams[s].work) == 0 {
			return d.lost
		}
		d.next(s)
	}
}

// runOthers does the work of all streams but one, up to where they wait for something that has not
// happened.
func (d *Double) runOthers(s driver.Stream) {
	for i := range d.streams {
		o := &d.streams[i]
		for driver.Stream(i) != s && o.graph == nil && len(o.work) > 0 && !o.work[0].waits() && d.lost == nil {
			d.next(driver.Stream(i))
		}
	}
}

// waits reports whether something has to happen before the piece.
func (p *piece) waits() bool { return p.wait != nil && p.wait.at == 0 }

// next does the first piece of a stream's work, after the work that it waits for: that was
// requested earlier, so this comes to an end. An error is permanent.
func (d *Double) next(s driver.Stream) {
	p := d.streams[s].work[0]
	for p.waits() && d.lost == nil {
		d.next(p.wait.stream)
	}
	d.streams[s].work = d.streams[s].work[1:]
	switch {
	case d.lost != nil:
	case p.record != nil:
		d.happens(p.record)
	case p.do != nil:
		d.lost = p.do()
	}
}

// happens notes the time of a mark, on a clock that counts marks.
func (d *Double) happens(m *mark) {
	d.clock++
	m.at = d.clock
}

// drain does all work of all streams.
func (d *Double) drain() error {
	for i := range d.streams {
		for len(d.streams[i].work) > 0 && d.streams[i].graph == nil && d.lost == nil {
			d.next(driver.Stream(i))
		}
	}
	return d.lost
}

// NewEvent makes an event.
func (d *Double) NewEvent() (driver.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, new(mark))
	return driver.Event(len(d.events)), nil
}

// Record makes the event happen when the stream reaches it; later waits refer to this record. If
// work is done at once, it has happened.
func (d *Double) Record(e driver.Event, s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.now(s) {
		m := &mark{queued: true, stream: s, graph: d.streams[s].graph}
		d.events[e-1] = m
		return d.queue(s, piece{record: m})
	}
	if d.events[e-1].queued {
		d.events[e-1] = new(mark) // a stream may be waiting for the old one
	}
	d.happens(d.events[e-1])
	return d.lost
}

// Wait makes the stream wait for the event's last Record, unless that has happened. A stream that
// waits for an event of a capture becomes a part of it.
func (d *Double) Wait(s driver.Stream, e driver.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.events[e-1]
	switch {
	case m.graph != nil:
		if err := d.join(m.graph, s); err != nil {
			return err
		}
	case d.streams[s].graph != nil && m.queued:
		return errors.New("double: a stream that is being captured waits for an event that is no part of the capture")
	case !m.queued || m.at != 0:
		return d.lost
	}
	return d.queue(s, piece{wait: m})
}

// Elapsed counts a millisecond for each event.
func (d *Double) Elapsed(from, to driver.Event) (float64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.drain(); err != nil {
		return 0, err
	}
	return float64(d.events[to-1].at - d.events[from-1].at), nil
}
