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
