// Package executor runs a typed graph on a device: in a given order, with every value
// at the place that a layout gives it, and measures what the run needed.
//
// The parts, from the inside out:
//
//   - Tensor is a typed view of memory that it does not own.
//   - Kernel computes one node. A device makes kernels (Device.Kernel); Prep is what a kernel
//     learns when a session is opened, Ctx what it sees when it runs.
//   - Pool runs the loops of kernels on several threads.
//   - A frame is a graph, or a subgraph, made ready to run: steps, values, a layout. Its space says
//     where the values live, on the host or on an Accelerator, and what follows from that.
//   - Session runs the main graph's frame and measures.
//
// Nothing here knows an operator by name except for control flow, which sessions run themselves in
// the same way on every device (control.go).
//
// # Session
//
// Open makes a kernel per node, loads weights (in place in the mapped file where they are aligned), asks
// kernels for their workspaces, simulates, and packs. Run executes one step; from the second on it allocates
// nothing.
//
// # Kernels
//
// A device's maker reads attributes and types once; Run checks shapes, asks for outputs (Ctx.Out) and loops in
// parallel over a Task. What an operator's attributes and shape inputs mean is worked out in executor/operand,
// for all devices. Errors of data end the run with the node's name; a kernel never panics on bad input.
//
// # Loop fusion
//
// Neighbouring elementwise loops over equally many elements run block by block, so that what one makes the
// next finds in the cache. Each still writes its planned output. Steps whose memory forbids it are not joined.
// An observer is told of each node of a group, with a share of the group's time as one block in four was
// timed.
//
// # Memory
//
// One block for the planned layout; a best-fit arena that merges free neighbours for what is taken on demand,
// with ONNX Runtime's two strategies of growth and a hard limit. All of it lies outside Go's heap.
//
// # Memory spaces
//
// A frame is a graph made ready to run, and its space is where its values live: the host's memory
// (hostspace.go) or that of an accelerator, a device with memory of its own (accelerator.go, devicespace.go).
// What follows from that, who makes kernels, what is copied and when (transfer.go), where weights, inputs and
// outputs lie (devicedata.go), is asked of the space; frames do not look where they are.
//
// # An accelerator's space
//
// Its arena, weights and inputs lie there as byte slices that only the device can read; what the host must
// read (outputs, guards, probes) is copied. Every value has one home. Shapes and small integers made of them
// are at home on the host, where the host's kernels compute them, so that no launch waits for a copy; inputs
// and weights can be read on both sides. A node without a kernel runs on the host, and its operands are copied
// there and back; copies to the device are part of the step's planned workspace, and all copies are counted.
// Subgraphs run on the host.
//
// # Captured steps
//
// Where the host has no part in a step, its second run is noted as a CUDA graph and later ones replay it.
// Session.WhyNoCapture says what stands in the way. Random nodes read the step's number from the device's
// memory, to which each replay copies it first, so that replayed steps draw what other steps draw. What
// kernels have found, an index that is outside for example, they leave in flags (flags.go), which are read
// after the replay.
//
// # Fetched outputs
//
// Session.Fetch names graph outputs that the host wants after every run. A Fetcher copies each to pinned
// memory as soon as the last node has run that writes to its memory (lastWriter), while the device goes on:
// outputs outlive the run in the plan, so the memory stays as it is. Other outputs are copied when Output is
// called.
//
// # Control flow
//
// If, Loop and Scan run their subgraphs in frames of their own, on demand; they are the same on every device.
package executor
