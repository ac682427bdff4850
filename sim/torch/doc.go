// Package torch simulates the memory of PyTorch's eager mode in one training step of a forward model:
// the tensors that its operators make, those that autograd saves, those of the backward half, and the
// lifetime of each. Its functions do not change a graph, and their results depend on their arguments
// alone.
//
// [Build] runs the model as PyTorch would, without numbers: every node becomes the operators of ATen
// that it was exported from (saved.go, lift.go), tensors are storages with strides, and each operator
// leaves its backward on a tape. A Gemm, for example, becomes an addmm that saves its factors.
// [Program.Simulate] then counts bytes, with any choice of modules under torch.utils.checkpoint.
//
// Operators save the tensors that PyTorch's save: the formulas in tools/autograd/derivatives.yaml,
// whose entries the table names, hold other tensors than gradients in ONNX do. Where devices differ,
// the CPU counts.
package torch
