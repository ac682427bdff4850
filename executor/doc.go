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
package executor
