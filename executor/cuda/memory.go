package cuda

import (
	"errors"
	"fmt"

	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// Memory returns the GPU's memory.
func (d *Device) Memory() executor.DeviceMemory { return memory{d} }

// memory is the GPU's memory, with copies on the device's stream.
type memory struct{ d *Device }

func (m memory) Alloc(n int) ([]byte, error) {
	b, err := m.d.driver.Alloc(n)
	if errors.Is(err, executor.ErrOutOfMemory) {
		free, total, _ := m.d.driver.MemInfo()
		err = fmt.Errorf("%d bytes of %s, of whose %d bytes %d are free: %w", n, m.d.driver.Info().Name,
			total, free, err)
	}
	return b, err
}
func (m memory) Free(b []byte) error           { return m.d.driver.Free(b) }
func (m memory) CopyIn(dst, src []byte) error  { return m.d.driver.CopyIn(m.d.stream, dst, src) }
func (m memory) CopyOut(dst, src []byte) error { return m.d.driver.CopyOut(m.d.stream, dst, src) }
func (m memory) Copy(dst, src []byte) error    { return m.d.driver.Copy(m.d.stream, dst, src) }
func (m memory) Fill(dst []byte, v byte) error { return m.d.driver.Fill(m.d.stream, dst, v) }
func (m memory) Available() (int64, bool) {
	free, _, err := m.d.driver.MemInfo()
	return free, err == nil
}

// Sync waits for the device's stream, and for fetches.
func (m memory) Sync() error {
	joined := m.d.joinFetches()
	if err := m.d.driver.Sync(m.d.stream); err != nil {
		return err
	}
	return joined
}

func (m memory) Pin(n int) ([]byte, error) { return m.d.driver.Pin(n) }
func (m memory) Unpin(b []byte) error      { return m.d.driver.Unpin(b) }

// BeginCapture records the stream's later work instead of doing it.
func (m memory) BeginCapture() error { return m.d.driver.BeginCapture(m.d.stream) }

// EndCapture makes a CUDA graph of it.
func (m memory) EndCapture() (executor.Capture, error) {
	joined := m.d.joinFetches()
	g, err := m.d.driver.EndCapture(m.d.stream)
	if err != nil {
		return nil, err
	}
	return &captured{m.d, g}, joined
}

// captured is a CUDA graph.
type captured struct {
	d *Device
	g driver.Graph
}

func (c *captured) Replay() error { return c.d.driver.Replay(c.g, c.d.stream) }
func (c *captured) Free() error   { return c.d.driver.FreeGraph(c.g) }

// send copies bytes of the host to workspace.
func (d *Device) send(c *executor.Ctx, from []byte) ([]byte, error) {
	to := c.Scratch(len(from))
	if len(to) == 0 {
		return to, nil
	}
	return to, d.Memory().CopyIn(to, from)
}
