package executor

// DeviceMemory is a device's own memory. It is handed around as []byte like any other, but the
// bytes are the device's: what is at such an address the host learns by CopyOut alone. Work is done
// in the order of the calls, that of kernels included; a call may return before its work is done.
type DeviceMemory interface {
	Alloc(n int) ([]byte, error) // at a multiple of arena.Alignment; wraps ErrOutOfMemory where there is not enough
	Free(b []byte) error
	CopyIn(dst, src []byte) error  // from the host; src may change when it returns
	CopyOut(dst, src []byte) error // to the host; done when it returns
	Copy(dst, src []byte) error    // within the device
	Fill(dst []byte, v byte) error
	Sync() error // waits for all work, fetches included, and returns its errors
	// Available returns how many bytes can be allocated, or false where the device does not say.
	Available() (int64, bool)
}

// Placer is a device with memory of its own. A session keeps values there, and small integers that
// make up shapes on the host (see place.go).
type Placer interface {
	Device
	Memory() DeviceMemory
	// Host is the device that runs what this one does not.
	Host() Device
	// Place makes the kernel of a node and says where it runs.
	Place(p *Prep) (Placed, error)
}

// Placed is a kernel with the side that it runs on.
type Placed struct {
	Kernel Kernel
	// Host says why the kernel is the host's; "" where it is the device's.
	Host string
	// HostInputs lists inputs whose contents a device's kernel reads on the host: shapes, axes,
	// ratios.
	HostInputs []int
}

// Copies counts copies between host and device, in runs alone: not those of weights, inputs and
// outputs.
type Copies struct {
	In, Out           int // to the device, from the device
	InBytes, OutBytes int64
}

// HostNode is a node that a session runs on the host although it has a device.
type HostNode struct {
	Label, Why string
}

// HostNodes lists the nodes of the main graph that run on the host, in order; none where the device
// has no memory of its own.
func (s *Session) HostNodes() []HostNode {
	var list []HostNode
	for i := range s.root.steps {
		if st := &s.root.steps[i]; st.hostWhy != "" {
			list = append(list, HostNode{st.prep.Label, st.hostWhy})
		}
	}
	return list
}

// copyIn copies host memory to where a frame's values live.
func (f *frame) copyIn(dst, src []byte) error {
	if f.mem == nil {
		copy(dst, src)
		return nil
	}
	return f.mem.CopyIn(dst, src)
}

// copyWithin copies between places where a frame's values live.
func (f *frame) copyWithin(dst, src []byte) error {
	if f.mem == nil {
		copy(dst, src)
		return nil
	}
	return f.mem.Copy(dst, src)
}

// readable returns what is at b, which lies where the frame's values live: b itself on the host,
// else a copy.
func (f *frame) readable(b []byte) ([]byte, error) {
	if f.mem == nil || len(b) == 0 {
		return b, nil
	}
	data := make([]byte, (len(b)+7)&^7)[:len(b)]
	return data, f.mem.CopyOut(data, b)
}

// fill sets bytes where a frame's values live.
func (f *frame) fill(b []byte, v byte) error {
	if f.mem == nil {
		for i := range b {
			b[i] = v
		}
		return nil
	}
	return f.mem.Fill(b, v)
}
