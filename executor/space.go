package executor

import "memopt/graph"

// space is the memory space of a frame's values: the host's memory, or that of an accelerator.
// Everything that depends on where values live is decided here: the device that makes the kernels,
// the copies between host and device, and the places of weights, inputs and outputs. The main
// graph's frame is on the session's device; frames of subgraphs are in the host's memory.
type space interface {
	// assign makes a step's kernel, and decides the side that it runs on and the places of its
	// operands.
	assign(st *step) error
	// assignOwn does so for a step whose kernel is the session's own; host is the reason why the
	// host runs it, "" where each side can.
	assignOwn(st *step, host string)
	// atHost reports whether a value lives in the host's memory, which is not the frame's.
	atHost(v graph.ValueID) bool
	// captured returns the tensor of a frame's value that a subgraph of a step reads.
	captured(st *step, v graph.ValueID) *Tensor
	// fuse marks steps that run as one.
	fuse() error

	// reserve takes memory for inputs and weights, before any of them is loaded.
	reserve() error
	// load gives an initializer its contents. aligned says that raw can be read as any element
	// type.
	load(id graph.ValueID, raw []byte, aligned bool) error
	// runConstant runs a constant node. Its outputs are valid as long as the session.
	runConstant(st *step) error
	// setInput gives a graph input its data.
	setInput(id graph.ValueID, t *Tensor) error
	// setFeed gives a boundary node's output its gradient.
	setFeed(id graph.ValueID, t *Tensor) error

	// fetch copies the inputs of a step that live on the other side, before it runs.
	fetch(st *step) error
	// store copies the results of a step to the side where they live.
	store(st *step) error
	// readable returns the bytes b of the frame's memory in memory that the host can read.
	readable(b []byte) ([]byte, error)
	// spread fills dst with copies of one element. Both lie in the frame's memory.
	spread(dst, one []byte) error
	// output returns graph output i for the host to read.
	output(i int) *Tensor

	// ranInside reports the peak of live bytes in a subgraph that has run.
	ranInside(peak int64)
	// onHost returns how many of the planned bytes are taken from the host's memory.
	onHost(planned int64) int64
}

// newSpace returns the space of a frame, and its memory.
func (s *Session) newSpace(f *frame, subgraph bool) (space, DeviceMemory) {
	a, ok := s.device.(Accelerator)
	switch {
	case !ok:
		return &hostSpace{f: f, device: s.device, weights: s.weights}, hostMemory{}
	case subgraph:
		return &hostSpace{f: f, device: a.Host(), weights: s.hostArena}, hostMemory{}
	}
	return newDeviceSpace(f, a), a.Memory()
}
