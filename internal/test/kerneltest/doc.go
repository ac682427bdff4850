// Package kerneltest has the conformance cases of kernels, for every device: nodes with inputs and
// with the outputs of a computation that shares no code with the kernels. Check runs a case on a
// device and also holds the kernel to executor.Kernel's contract.
//
// The oracles of the outputs themselves are a row by operator in oracle_table.go: ONNX's node tests,
// stock ONNX Runtime, PyTorch's numbers, finite differences, or a reason why no outside oracle holds
// them. Tests hold the rows to the oracles' results.
package kerneltest
