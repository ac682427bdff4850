// Package ort says what ONNX Runtime does with a graph: in which order it runs, how
// optimizations change it, which values share a buffer, what the kernels and the arena take.
// Nothing here changes a graph, and what a function returns depends on its arguments alone.
//
// # The memory-efficient order
//
// [MemoryEfficientOrder] is the order in which ONNX Runtime's training build executes a graph when
// its memory optimizer is on: the forward half by depth-first search from the YieldOp, so that what
// is not needed for it is put off, and the backward half breadth-first from there. Clusters, counts
// and strategies of the optimizer depend on it, so it is reproduced exactly.
//
// # The stock runtime
//
// [Simulate] says what memory a training graph takes in the build that everybody installs, at its
// default settings on the CPU; [Simulator] does so for programs before any graph is written for
// them. A program goes through the optimizations that matter to memory or to the order, is put in
// the default order, its values are assigned to buffers, and the arena hands out chunks for these.
//
// Files and functions named in comments are those of ONNX Runtime's sources, below
// onnxruntime/core.
package ort
