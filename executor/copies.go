package executor

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// Copies of values to the host's memory and back (op.Transfer). The values that lie there have a memory of
// their own, with a layout of its own, which counts in none of the device's figures: on the CPU it stands for
// the memory that is far from the device. The session's mover copies beside the nodes that run.

// hostCopies is the memory of a session's values on the host.
type hostCopies struct {
	arena *Arena // nil where the graph has no copies
	base  []byte // the planned layout
	given bool   // base comes from PlaceCopies
	bytes int64  // of the layout
	peak  int64  // predicted bytes of the values that are there at once

	live, livePeak, high int64 // of the run: as those of a frame
}

// newTransfer makes the kernel of a node that begins a copy or waits for one.
func newTransfer(f *frame, st *step) (Kernel, error) {
	s := f.s
	if f != s.root {
		return nil, st.prep.Unsupported("copies to the host are in the main graph only")
	}
	queues, _ := s.mem.(CopyQueues)
	switch {
	case s.mem != (hostMemory{}) && queues == nil:
		return nil, st.prep.Unsupported("device %s has no kernel for copies of values to the host", s.device.Name())
	case f.space.atHost(st.node.Inputs[0]):
		return nil, st.prep.Unsupported("%q is computed on the host", f.g.ValueName(st.node.Inputs[0]))
	}
	if s.mover == nil {
		s.mover = newMover(s.opts.Link)
		s.mover.queues = queues
	}
	if st.prep.Info.Transfer == op.Awaits {
		return &awaitKernel{s.mover, f.copyInto(st.node.Inputs[0])}, nil
	}
	return &copyKernel{s.mover, s.mover.job(), st.prep.Info.Transfer == op.ToHost}, nil
}

// copyInto returns the copy that makes a value. Its node comes earlier in the order.
func (f *frame) copyInto(v graph.ValueID) *copyJob {
	for i := range f.steps {
		if k, ok := f.steps[i].kernel.(*copyKernel); ok && f.steps[i].node.Outputs[0] == v {
			return k.job
		}
	}
	return nil // live.CheckCopies has refused it
}

// copyKernel is Offload and Reload: it begins a copy.
type copyKernel struct {
	mover   *mover
	job     *copyJob
	outward bool
}

// Run begins the copy.
func (k *copyKernel) Run(c *Ctx) error {
	x := c.In(0)
	y := c.Out(0, x.Shape...)
	return k.mover.begin(k.job, k.outward, y.Data, x.Data)
}

// awaitKernel is Wait: its output is the copy, which has ended.
type awaitKernel struct {
	mover *mover
	job   *copyJob
}

// Run waits.
func (k *awaitKernel) Run(c *Ctx) error {
	if err := k.mover.wait(c.Context, k.job); err != nil {
		return err
	}
	c.View(0, c.In(0), c.In(0).Shape...)
	return nil
}

// begins reports whether the outputs of a step may still be written when it has run.
func (st *step) begins() bool {
	_, ok := st.kernel.(*copyKernel)
	return ok
}

// hostRoot returns the root of a value that lies in the host's memory, or NoValue.
func (f *frame) hostRoot(v graph.ValueID) graph.ValueID {
	if f.timeline.Host == nil {
		return graph.NoValue
	}
	return f.timeline.Host.Root[v]
}

// planCopies plans the memory of values on the host, as taken on demand.
func (s *Session) planCopies(f *frame) {
	t := f.timeline.Host
	if t == nil || f != s.root {
		return
	}
	s.host.arena = NewHostArena(s.device)
	s.shares.copies = &share{arena: s.host.arena}
	f.shares.copies = s.shares.copies
	s.host.peak, s.host.bytes = t.Peak.Bytes, onDemandPeak(t, f.bytes)
}

// hostOutput gives a running node memory on the host for an output.
func (st *step) hostOutput(v graph.ValueID, n int) ([]byte, error) {
	f, h := st.f, &st.f.s.host
	if n == 0 {
		return nil, nil
	}
	h.live += int64(n) - f.held[v]
	f.held[v] = int64(n)
	h.livePeak = max(h.livePeak, h.live)
	guard := f.s.guard()
	end := int64(n) + guard
	if off := f.offsets[v]; off >= 0 {
		if h.high = max(h.high, off+end); f.s.virtual {
			return nil, nil
		}
		b := h.base[off : off+end]
		return b[:n:n], hostMemory{}.Fill(b[n:], guardByte)
	}
	if f.s.virtual {
		return nil, nil
	}
	if b := f.blocks[v]; int64(len(b)) != end {
		f.drop(v)
		b, err := f.shares.copies.Alloc(int(end))
		if err != nil {
			return nil, fmt.Errorf("in the host's memory: %w", err)
		}
		f.blocks[v] = b
	}
	b := f.blocks[v]
	return b[:n:n], hostMemory{}.Fill(b[n:], guardByte)
}

// measureCopies notes the memory on the host that a run has needed.
func (s *Session) measureCopies() {
	m := &s.measured
	m.HostLive, m.Host = max(m.HostLive, s.host.livePeak), max(m.Host, s.host.high)
	if c := s.root.shares.copies; c != nil && s.opts.OnDemand {
		m.Host = max(m.Host, c.peak)
	}
	if s.virtual && s.opts.OnDemand {
		m.Host = m.HostLive
	}
	if s.mover != nil {
		m.Moved = s.mover.moved
	}
}

// hold takes the planned block from the arena.
func (h *hostCopies) hold() error {
	if h.base != nil || h.bytes == 0 {
		return nil
	}
	base, err := h.arena.Reserve(int(h.bytes))
	if err != nil {
		return fmt.Errorf("copies of values on the host, of %d bytes: %w", h.bytes, err)
	}
	h.base = base
	return nil
}

// release gives it back.
func (h *hostCopies) release() {
	if h.base != nil && !h.given {
		h.arena.Free(h.base)
		h.base = nil
	}
}

// PlaceCopies gives the session memory on the host for its planned values there, in place of memory of its own:
// Prediction.Host bytes or more, from an arena of NewHostArena. As with Place, sessions that run by turns may share
// a block; nil takes it back.
func (s *Session) PlaceCopies(block []byte) {
	s.host.release()
	s.host.base, s.host.given = block, block != nil
}

// NewHostArena returns an empty arena for values that a device's sessions move to the host.
func NewHostArena(d Device) *Arena {
	var source DeviceMemory = hostMemory{}
	if p, ok := memoryOf(d).(CopyQueues); ok {
		source = pinned{memoryOf(d), p}
	}
	return newArenaOn(source, SameAsRequested, 0)
}

// check makes sure that the copies of a graph can run.
func checkCopies(g *graph.Graph) error {
	if err := live.CheckCopies(g); err != nil {
		return &Unsupported{err}
	}
	return nil
}
