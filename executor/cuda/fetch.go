package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// fetches are copies to the host that run on a stream of their own, while the device's stream goes
// on. In a capture they are branches of the graph, since the streams are ordered by the same two
// events.
type fetches struct {
	stream  driver.Stream
	made    driver.Event // on the device's stream: the data to be fetched next exist
	copied  driver.Event // on the fetches' stream: all of them are done
	pending bool         // the device's stream does not wait for some of them yet
}

func newFetches(drv driver.Driver) (f fetches, err error) {
	if f.stream, err = drv.NewStream(); err != nil {
		return f, err
	}
	if f.made, err = drv.NewEvent(); err != nil {
		return f, err
	}
	f.copied, err = drv.NewEvent()
	return f, err
}

// Fetch makes the copy wait for the work requested so far on the device's stream.
func (m memory) Fetch(dst, src []byte) error {
	drv, f := m.d.driver, &m.d.fetches
	if err := drv.Record(f.made, m.d.stream); err != nil {
		return err
	}
	if err := drv.Wait(f.stream, f.made); err != nil {
		return err
	}
	f.pending = true // in a capture the fetches' stream is a part of it from now on
	return drv.CopyOutAsync(f.stream, dst, src)
}

// joinFetches makes the device's stream wait for all fetches.
func (d *Device) joinFetches() error {
	f := &d.fetches
	if !f.pending {
		return nil
	}
	f.pending = false
	if err := d.driver.Record(f.copied, f.stream); err != nil {
		return err
	}
	return d.driver.Wait(d.stream, f.copied)
}

var _ executor.Fetcher = memory{}
