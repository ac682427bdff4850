package executor

// DeviceMemory is a device's own memory. It is passed around as []byte like any other, but the
// bytes are the device's: the host can read them only through CopyOut. The device does all work,
// kernels included, in the order of the calls; a call may return before its work is done.
type DeviceMemory interface {
	Alloc(n int) ([]byte, error) // at a multiple of arena.Alignment; wraps ErrOutOfMemory if there is not enough
	Free(b []byte) error
	CopyIn(dst, src []byte) error  // from the host; src may change when it returns
	CopyOut(dst, src []byte) error // to the host; done when it returns
	Copy(dst, src []byte) error    // within the device
	Fill(dst []byte, v byte) error
	Sync() error // waits for all work, fetches included, and returns its errors
	// Available returns how many bytes can be allocated, or false if the device does not know.
	Available() (int64, bool)
}

// CopyQueues is a DeviceMemory whose device copies to the host's pinned memory and back beside its other work: it has
// a queue for each way.
type CopyQueues interface {
	Pinner
	// NewMark returns a mark for the end of a copy; FreeMark gives it back.
	NewMark() (Mark, error)
	FreeMark(m Mark)
	// CopyBeside copies out, to pinned memory of the host, or in from there, after all work requested so far and
	// after the copies that way before. Later work does not wait for it until Await.
	CopyBeside(m Mark, out bool, dst, src []byte) error
	// Await makes later work wait for the copy that has the mark.
	Await(m Mark) error
}

// Mark is the end of a copy, as the device knows it.
type Mark uintptr

// pinned is memory of the host that a device copies to and from by itself.
type pinned struct {
	DeviceMemory
	from Pinner
}

func (p pinned) Alloc(n int) ([]byte, error) { return p.from.Pin(n) }

func (p pinned) Free(b []byte) error { return p.from.Unpin(b) }

// Accelerator is a device with its own memory, for example a GPU. A session keeps values there, and
// small integers that make up shapes on the host (see devicespace.go).
type Accelerator interface {
	Device
	Memory() DeviceMemory
	// Host is the device that runs the nodes without a kernel on this one.
	Host() Device
	// Assign makes the kernel of a node and reports the side that it runs on.
	Assign(p *Prep) (Assigned, error)
}

// Assigned is a kernel with the side that it runs on.
type Assigned struct {
	Kernel Kernel
	// Host is the reason why the kernel runs on the host; "" if it runs on the device.
	Host string
	// HostInputs lists inputs whose contents a device's kernel reads on the host: shapes, axes,
	// ratios. For example, input 1 of Reshape.
	HostInputs []int
}

// Copies counts copies between host and device during runs, without those of weights, inputs and
// outputs.
type Copies struct {
	In, Out           int // to the device, from the device
	InBytes, OutBytes int64
}

// HostNode is a node that a session runs on the host although it has a device.
type HostNode struct {
	Label, Why string
}

// HostNodes lists the nodes of the main graph that an accelerator leaves to the host, in order.
func (s *Session) HostNodes() []HostNode {
	var list []HostNode
	for i := range s.root.steps {
		if st := &s.root.steps[i]; st.hostWhy != "" {
			list = append(list, HostNode{st.prep.Label, st.hostWhy})
		}
	}
	return list
}
