// Package executor runs a typed graph on a device: in a given order, with every value
// at the place that a layout gives it, and measures what the run needed.
//
// The parts, from the inside out:
//
//   - Tensor is a typed view of memory that somebody else owns.
//   - Kernel computes one node. A device makes kernels (Device.Kernel); Prep is what a kernel
//     learns when a session is opened, Ctx what it sees when it runs.
//   - Pool runs the loops of kernels on several threads.
//
// Nothing here knows an operator by name.
package executor
