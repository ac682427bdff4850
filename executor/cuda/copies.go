package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// copyQueues are the streams of copies to the host's memory and back that run beside the device's stream. Events
// order them: a copy waits for the work on the device's stream, and that waits for the copy where a node does. So
// all memory, the host's included, is used in the order of the requests, in captures too.
type copyQueues struct {
	made driver.Event     // on the device's stream: the work before the next copy is done
	way  [2]driver.Stream // in, out
	open bool
	free []driver.Event // that no session uses
}

// queues makes the streams on first use.
func (d *Device) queues() (*copyQueues, error) {
	q := &d.copies
	if q.open {
		return q, nil
	}
	var err error
	if q.made, err = d.driver.NewEvent(); err != nil {
		return nil, err
	}
	for i := range q.way {
		if q.way[i], err = d.driver.NewStream(); err != nil {
			return nil, err
		}
	}
	q.open = true
	return q, nil
}

// NewMark returns an event.
func (m memory) NewMark() (executor.Mark, error) {
	q, err := m.d.queues()
	if err != nil {
		return 0, err
	}
	if n := len(q.free); n > 0 {
		e := q.free[n-1]
		q.free = q.free[:n-1]
		return executor.Mark(e), nil
	}
	e, err := m.d.driver.NewEvent()
	return executor.Mark(e), err
}

// FreeMark keeps the event for the next session.
func (m memory) FreeMark(k executor.Mark) {
	if k != 0 {
		m.d.copies.free = append(m.d.copies.free, driver.Event(k))
	}
}

// CopyBeside copies on the stream of its way.
func (m memory) CopyBeside(k executor.Mark, out bool, dst, src []byte) error {
	drv, q := m.d.driver, &m.d.copies
	s := q.way[0]
	if out {
		s = q.way[1]
	}
	if err := drv.Record(q.made, m.d.stream); err != nil {
		return err
	}
	if err := drv.Wait(s, q.made); err != nil {
		return err
	}
	move := drv.CopyIn
	if out {
		move = drv.CopyOutAsync
	}
	if len(src) > 0 {
		if err := move(s, dst, src); err != nil {
			return err
		}
	}
	return drv.Record(driver.Event(k), s)
}

// Await makes the device's stream wait.
func (m memory) Await(k executor.Mark) error { return m.d.driver.Wait(m.d.stream, driver.Event(k)) }

var _ executor.CopyQueues = memory{}
