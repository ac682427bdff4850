// Package torch says what PyTorch's eager mode does with memory in one training step of a forward
// model: which tensors its operators make, what autograd saves of them, what the backward half makes,
// and when all of it is freed. Nothing here changes a graph, and what a function returns depends on its
// arguments alone.
//
// [Build] runs the model as PyTorch would, without numbers: every node becomes the operators of ATen
// that it was exported from (table.go, lift.go), tensors are storages with strides, and each operator
// leaves on a tape what its backward does. [Program.Simulate] then counts bytes, with any choice of
// modules under torch.utils.checkpoint.
//
// What operators save is PyTorch's: the formulas in tools/autograd/derivatives.yaml, whose entries the
// table names, hold other tensors than gradients in ONNX do. Where devices differ, the CPU counts.
package torch
