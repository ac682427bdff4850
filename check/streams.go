package check

import "slices"

// moment is a vector clock: by stream, how many of its operations come before, this one included.
type moment []int

// order is the happens-before order of operations: by stream, the moment of its newest one.
type order struct{ now []moment }

func newOrder(streams int) *order {
	o := &order{now: make([]moment, streams)}
	for s := range o.now {
		o.now[s] = make(moment, streams)
	}
	return o
}

// next begins an operation on a stream.
func (o *order) next(stream int) { o.now[stream][stream]++ }

// join puts the newest operation of a stream behind a moment.
func (o *order) join(stream int, m moment) {
	for s, n := range m {
		o.now[stream][s] = max(o.now[stream][s], n)
	}
}

// mark is the newest operation of a stream, for others to wait for.
func (o *order) mark(stream int) moment { return slices.Clone(o.now[stream]) }

// memory is the accesses to a piece of memory: the write, and by stream the last read since.
type memory struct {
	writer, write int
	reads         moment
}

// fresh is memory that the newest operation of a stream writes.
func (o *order) fresh(stream int) memory { return memory{stream, o.now[stream][stream], nil} }

// written tells whether the write comes before the newest operation of a stream.
func (o *order) written(stream int, m *memory) bool { return o.now[stream][m.writer] >= m.write }

// unread tells whether all reads come before the newest operation of a stream.
func (o *order) unread(stream int, m *memory) bool {
	for s, n := range m.reads {
		if o.now[stream][s] < n {
			return false
		}
	}
	return true
}

// read notes a read by the newest operation of a stream, and tells whether the write comes before it.
func (o *order) read(stream int, m *memory) bool {
	if m.reads == nil {
		m.reads = make(moment, len(o.now))
	}
	m.reads[stream] = o.now[stream][stream]
	return o.written(stream, m)
}
