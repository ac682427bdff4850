package executor

import (
	"fmt"

	"memopt/graph"
	"memopt/internal/memlimit"
)

// hostSpace is the host's memory: everything can be read where it lies.
type hostSpace struct {
	f       *frame
	device  Device
	weights *Arena
}

func (h *hostSpace) assign(st *step) (err error) {
	st.kernel, err = h.device.Kernel(st.prep)
	return err
}

func (h *hostSpace) assignOwn(*step, string) {}

func (h *hostSpace) atHost(graph.ValueID) bool { return false }

func (h *hostSpace) captured(_ *step, v graph.ValueID) *Tensor { return h.f.vals[v] }

func (h *hostSpace) fuse() error {
	h.f.fuseLoops()
	return nil
}

// reserve has no effect: most weights stay in their files.
func (h *hostSpace) reserve() error { return nil }

// load leaves a weight in its file where it can be read there.
func (h *hostSpace) load(id graph.ValueID, raw []byte, aligned bool) (err error) {
	f, t, name := h.f, h.f.vals[id], h.f.g.Values[id].Data.Name
	if aligned && !f.mutable[id] {
		t.Data = raw
		if f.s.opts.sizesOnly {
			return nil
		}
		if err := f.s.stayInFile(name, raw); err != nil {
			return err
		}
		touch(raw)
		return nil
	}
	if t.Data, err = h.weights.Alloc(len(raw)); err != nil {
		return fmt.Errorf("initializer %q (%v): %w", name, t, err)
	}
	copy(t.Data, raw)
	return nil
}

func (h *hostSpace) runConstant(st *step) error {
	return Invoke(st.kernel, NewCtx(st.prep, h.f.s.pool, weightMemory{h.weights}, st.in, st.out))
}

// setInput reads an input where the caller has it, unless the session updates it.
func (h *hostSpace) setInput(id graph.ValueID, t *Tensor) error {
	if h.f.s.states.is[id] {
		return h.f.s.keepState(h.f.vals[id], t, id)
	}
	if h.f.mutable[id] {
		return h.f.s.keepInput(h.f.vals[id], t)
	}
	*h.f.vals[id] = *t
	return nil
}

func (h *hostSpace) setFeed(id graph.ValueID, t *Tensor) error {
	h.f.s.fed[id] = t
	return nil
}

func (h *hostSpace) fetch(*step) error { return nil }

func (h *hostSpace) store(*step) error { return nil }

func (h *hostSpace) readable(b []byte) ([]byte, error) { return b, nil }

func (h *hostSpace) spread(dst, one []byte) error {
	repeat(dst, one)
	return nil
}

func (h *hostSpace) output(i int) *Tensor { return h.f.vals[h.f.g.Outputs[i].Value] }

// ranInside adds the live bytes of a subgraph to those of the enclosing frame.
func (h *hostSpace) ranInside(peak int64) { h.f.livePeak = max(h.f.livePeak, h.f.live+peak) }

func (h *hostSpace) onHost(planned int64) int64 { return planned }

// repeat fills dst with copies of one element.
func repeat(dst, one []byte) {
	for at := 0; at < len(dst); at += len(one) {
		copy(dst[at:], one)
	}
}

// hostMemory is the host's memory as that of a device: all work is done when a call returns.
type hostMemory struct{}

// Alloc takes memory from the operating system.
func (hostMemory) Alloc(n int) ([]byte, error) { return mapMemory(n) }

// Free gives memory back to the operating system.
func (hostMemory) Free(b []byte) error { return unmapMemory(b) }

// CopyIn copies.
func (hostMemory) CopyIn(dst, src []byte) error {
	copy(dst, src)
	return nil
}

// CopyOut copies.
func (hostMemory) CopyOut(dst, src []byte) error {
	copy(dst, src)
	return nil
}

// Copy copies.
func (hostMemory) Copy(dst, src []byte) error {
	copy(dst, src)
	return nil
}

// Fill sets every byte.
func (hostMemory) Fill(dst []byte, v byte) error {
	if v == 0 {
		clear(dst)
		return nil
	}
	for i := range dst {
		dst[i] = v
	}
	return nil
}

// Sync returns at once, as all work is done.
func (hostMemory) Sync() error { return nil }

// Available returns how many bytes this process may still take.
func (hostMemory) Available() (int64, bool) {
	l, ok := memlimit.Available()
	return l.Bytes, ok
}
