// Package ort simulates ONNX Runtime on a graph: its execution order, the changes of its
// optimizations, the values that share a buffer, the memory of its kernels and its arena. Its
// functions do not change a graph, and their results depend on their arguments alone.
//
// # The memory-efficient order
//
// [MemoryEfficientOrder] is the execution order of ONNX Runtime's training build when its memory
// optimizer is on: the forward half by depth-first search from the YieldOp, so that nodes which it
// does not need are put off, and the backward half breadth-first from there. Clusters, counts and
// strategies of the optimizer depend on it, so it is reproduced exactly.
//
// # The stock runtime
//
// [Simulate] predicts the memory of a training graph in the stock build, at its default settings on
// the CPU; [Simulator] does so for programs before any graph is written for them. A program goes
// through the optimizations that matter to memory or to the order, is put in the default order, its
// values are assigned to buffers, and the arena hands out chunks for these.
//
// Files and functions named in comments are those of ONNX Runtime's sources, below
// onnxruntime/core.
package ort
