// Package streams orders operations that run beside each other on streams: by the streams themselves and by waits,
// never by times. Vector clocks (Fidge 1988, Mattern 1989) tell of two accesses to one memory whether one comes before
// the other in every run.
package streams

import "slices"

// Moment is a vector clock: by stream, how many of its operations come before, this one included.
type Moment []int

// Order is the happens-before order of operations: by stream, the moment of its newest one.
type Order struct{ now []Moment }

// New is an order of operations on so many streams.
func New(streams int) *Order {
	o := &Order{now: make([]Moment, streams)}
	for s := range o.now {
		o.now[s] = make(Moment, streams)
	}
	return o
}

// Next begins an operation on a stream.
func (o *Order) Next(stream int) { o.now[stream][stream]++ }

// Join puts the newest operation of a stream behind a moment.
func (o *Order) Join(stream int, m Moment) {
	for s, n := range m {
		o.now[stream][s] = max(o.now[stream][s], n)
	}
}

// Now is the newest operation of a stream, for others to wait for.
func (o *Order) Now(stream int) Moment { return slices.Clone(o.now[stream]) }

// Memory is the accesses to a piece of memory: the write, and by stream the last read since.
type Memory struct {
	writer, write int
	reads         Moment
}

// Fresh is memory that the newest operation of a stream writes.
func (o *Order) Fresh(stream int) Memory { return Memory{stream, o.now[stream][stream], nil} }

// Written tells whether the write comes before the newest operation of a stream.
func (o *Order) Written(stream int, m *Memory) bool { return o.now[stream][m.writer] >= m.write }

// Unread tells whether all reads come before the newest operation of a stream.
func (o *Order) Unread(stream int, m *Memory) bool {
	for s, n := range m.reads {
		if o.now[stream][s] < n {
			return false
		}
	}
	return true
}

// Read notes a read by the newest operation of a stream, and tells whether the write comes before it.
func (o *Order) Read(stream int, m *Memory) bool {
	if m.reads == nil {
		m.reads = make(Moment, len(o.now))
	}
	m.reads[stream] = o.now[stream][stream]
	return o.Written(stream, m)
}
