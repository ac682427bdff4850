// Package executor runs a typed graph on a device: in a given order, with every value at its place
// in a layout, and measures the memory of the run.
//
// The parts, from the inside out:
//
//   - Tensor is a typed view of memory that it does not own.
//   - Kernel computes one node. A device makes kernels (Device.Kernel); Prep describes the node
//     when a session is opened, Ctx one run of it.
//   - Pool runs the loops of kernels on several threads.
//   - A frame is a graph, or a subgraph, made ready to run: steps, values, a layout. Its space
//     decides where the values live, on the host or on an Accelerator.
//   - Session runs the main graph's frame and measures.
//
// The package names no operators except for control flow, which sessions run themselves in the same
// way on every device (control.go).
//
// # Session
//
// Open makes a kernel per node, loads weights (in place in the mapped file if they are aligned), asks kernels
// for their workspaces, simulates, and packs. Run executes one step, from the second on without allocations.
//
// # Kernels
//
// A device's maker reads attributes and types once; Run checks shapes, asks for outputs (Ctx.Out) and loops in
// parallel over a Task. Package executor/operand interprets an operator's attributes and shape inputs for all
// devices. Errors of data end the run with the node's name; a kernel never panics on bad input.
//
// # Loop fusion
//
// Neighbouring elementwise loops over equally many elements run block by block, so that each loop finds the
// results of the previous one in the cache. Each still writes its planned output. Steps whose memory forbids
// it are not joined. An observer is told of each node of a group, with a share of the group's time as one
// block in four was timed.
//
// # Memory
//
// One block for the planned layout; for memory on demand, a best-fit arena that merges free neighbours, with
// ONNX Runtime's two strategies of growth and a hard limit. All of it lies outside Go's heap.
//
// # Memory spaces
//
// A frame is a graph made ready to run, and its space holds its values: the host's memory (hostspace.go) or
// that of an accelerator, a device with its own memory (accelerator.go, devicespace.go). The space decides
// everything that depends on this: the makers of kernels, the copies and their times (transfer.go), and the
// places of weights, inputs and outputs (devicedata.go).
//
// # An accelerator's space
//
// Its arena, weights and inputs lie there as byte slices that only the device can read; values that the host
// must read (outputs, guards, probes) are copied. Every value has one home. Shapes and small integers made of
// them are at home on the host, where host kernels compute them, so that no launch waits for a copy; inputs
// and weights can be read on both sides. A node without a kernel runs on the host, and its operands are copied
// there and back; copies to the device are part of the step's planned workspace, and all copies are counted.
// Subgraphs run on the host.
//
// # Captured steps
//
// If the host has no part in a step, its second run is recorded as a CUDA graph and later ones replay it;
// otherwise Session.WhyNoCapture has the reason. Random nodes read the step's number from the device's memory,
// which each replay first updates, so that replayed steps draw the numbers of other steps. Kernels leave their
// errors, for example an index out of range, in flags (flags.go) that are read after the replay.
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
// If, Loop and Scan run their subgraphs in frames of their own, on demand, in the same way on every device.
package executor
