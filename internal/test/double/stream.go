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

// Sync does the requested work of the stream.
func (d *Double) Sync(s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.Syncs++
	if d.streams[s].graph != nil {
		return fmt.Errorf("double: Sync of a stream that is being captured")
	}
	return d.run(s)
}

// CopyIn copies from the host: the present contents of src, but for pinned memory.
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
	if d.isPinned(src) {
		return d.later(s, func() error { copy(to, src); return nil }) // the device reads it when it does the copy
	}
	kept := slices.Clone(src)
	return d.later(s, func() error { copy(to, kept); return nil })
}

// CopyOut copies to the host.
func (d *Double) CopyOut(s driver.Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams[s].graph != nil {
		return fmt.Errorf("double: CopyOut waits, and the stream is being captured")
	}
	if err := d.run(s); err != nil {
		return err
	}
	from, err := d.outgoing(dst, src)
	copy(dst, from)
	return err
}

// outgoing counts a copy to the host, and returns the device's bytes.
func (d *Double) outgoing(dst, src []byte) ([]byte, error) {
	d.counts.CopiesOut++
	d.counts.BytesOut += int64(len(src))
	from, err := d.find(src)
	if err != nil || len(from) != len(dst) {
		return nil, fmt.Errorf("copy of %d bytes of the device to %d bytes: %v", len(src), len(dst), err)
	}
	return from, nil
}

// CopyOutAsync copies to pinned memory of the host, which holds no numbers until it is done.
func (d *Double) CopyOutAsync(s driver.Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isPinned(dst) {
		return fmt.Errorf("double: CopyOutAsync to %d bytes of the host that are not pinned", len(dst))
	}
	from, err := d.outgoing(dst, src)
	if err != nil {
		return err
	}
	if d.now(s) {
		copy(dst, from)
		return nil
	}
	fill(dst, poison)
	return d.later(s, func() error {
		if !d.isPinned(dst) {
			return fmt.Errorf("double: pinned memory of %d bytes was given back before a copy to it was done", len(dst))
		}
		copy(dst, from)
		return nil
	})
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
