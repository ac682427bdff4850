package executor

import (
	"context"
	"encoding/binary"
	"fmt"

	"memopt/planner/arena"
)

// Capturer is a DeviceMemory whose device can record work and replay it as a whole.
type Capturer interface {
	Pinner
	BeginCapture() error
	EndCapture() (Capture, error)
}

// Pinner provides host memory that a device reads and writes by itself: captures do so whenever
// they are replayed, fetches during other work.
type Pinner interface {
	Pin(n int) ([]byte, error)
	Unpin(b []byte) error
}

// Capture is work that was recorded.
type Capture interface {
	Replay() error
	Free() error
}

// capturing is a session's use of a Capturer.
type capturing struct {
	wanted  bool
	why     string // why steps are not captured; "" if they are
	now     bool   // a capture is under way
	capture Capture
	pinned  [][]byte // sources of the capture's copies from the host
	random  bool     // whether a node draws random numbers
	step    []byte   // of pinned: the step's number, which each replay copies to stepAt; nil where no node draws
	stepAt  []byte   // memory of the device
	flags   Flags
}

// captureBytes is the device memory that a captured step of that many nodes needs for the step's
// number and the flags.
func captureBytes(nodes int) int {
	return arena.Alignment + blockSize(flagsSize(nodes))
}

// pin returns memory that holds src as long as the capture.
func (s *Session) pin(src []byte) ([]byte, error) {
	b, err := s.mem.(Capturer).Pin(len(src))
	if err != nil {
		return nil, err
	}
	s.captured.pinned = append(s.captured.pinned, b)
	copy(b, src)
	return b, nil
}

// WhyNoCapture returns the reason why a session that was asked to capture its steps
// (Options.Capture) does not, for example a node that runs on the host; "" if it captures them.
func (s *Session) WhyNoCapture() string { return s.captured.why }

// planCapture finds out whether steps can be captured: the device must do the same in each, and the
// host must not take part.
func (s *Session) planCapture() {
	c := &s.captured
	if c.wanted = s.opts.Capture; !c.wanted {
		return
	}
	if _, ok := s.mem.(Capturer); !ok {
		c.why = fmt.Sprintf("device %s cannot", s.device.Name())
		return
	}
	switch {
	case s.opts.OnDemand:
		c.why = "memory is taken on demand, at different addresses in every step"
	case s.opts.Guard || s.opts.Probe != nil || s.opts.Observer != nil:
		c.why = "the step is observed node by node"
	case len(s.pred.Unsized) > 0:
		c.why = fmt.Sprintf("the size of %q depends on data", s.root.g.ValueName(s.pred.Unsized[0]))
	}
	for i := range s.root.steps {
		st := &s.root.steps[i]
		switch {
		case c.why != "":
			return
		case st.needsHost():
			c.why = fmt.Sprintf("the host takes part in node %q: it reads or writes values on the "+
				"device", st.prep.Label)
		case st.prep.Info.Random && st.hostWhy != "":
			c.why = fmt.Sprintf("the host draws the random numbers of node %q, different ones in every step",
				st.prep.Label)
		}
		c.random = c.random || st.prep.Info.Random
	}
}

// forget drops the capture, because memory or inputs have changed.
func (s *Session) forget() {
	c := &s.captured
	if c.capture != nil {
		s.mem.Sync() // a replay may be under way
		c.capture.Free()
		c.capture = nil
	}
	for _, b := range c.pinned {
		s.mem.(Capturer).Unpin(b)
	}
	c.pinned, c.step = nil, nil
}

// beginCapture makes the capture begin by copying the step's number to the device, where its random
// nodes read it, and clearing the flags.
func (s *Session) beginCapture() (err error) {
	c := &s.captured
	if c.stepAt == nil {
		if c.stepAt, err = s.weights.Alloc(8); err != nil {
			return err
		}
		if c.flags.block, err = s.weights.Alloc(flagsSize(len(s.root.steps))); err != nil {
			return err
		}
	}
	c.flags.reports = c.flags.reports[:0]
	s.root.stepAt, s.root.flags = c.stepAt, &c.flags
	if c.random {
		if c.step, err = s.pin(make([]byte, 8)); err != nil {
			return err
		}
		if err := s.mem.CopyIn(c.stepAt, c.step); err != nil {
			return err
		}
	}
	return s.mem.Fill(c.flags.block, 0)
}

// replay runs the capture as the session's step number s.run. The previous step has ended, so the
// pinned number has no reader.
func (s *Session) replay() error {
	c := &s.captured
	if c.step != nil {
		binary.LittleEndian.PutUint64(c.step, s.run)
	}
	if err := c.capture.Replay(); err != nil {
		return err
	}
	return c.flags.check(s.mem)
}

// runRoot runs the main graph: node by node the first time, so that everything that is made on
// first use exists; then as a capture, if steps can be captured.
func (s *Session) runRoot(ctx context.Context) error {
	c := &s.captured
	if !c.wanted || c.why != "" || s.measured.Runs == 0 {
		s.root.release()
		return s.root.run(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.capture == nil {
		s.root.release()
		if err := s.capture(ctx); err != nil {
			return fmt.Errorf("capturing the step: %w", err)
		}
	}
	return s.replay()
}

// capture records a step.
func (s *Session) capture(ctx context.Context) error {
	m, c := s.mem.(Capturer), &s.captured
	if err := m.BeginCapture(); err != nil {
		return err
	}
	c.now = true
	err := s.beginCapture()
	if err == nil {
		err = s.root.run(ctx)
	}
	c.now, s.root.stepAt, s.root.flags = false, nil, nil
	capture, e := m.EndCapture()
	if err == nil {
		err = e
	}
	if err != nil && capture != nil {
		capture.Free()
		return err
	}
	c.capture = capture
	return err
}
