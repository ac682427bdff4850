// Package kerneltest has the conformance cases of kernels, for every device: nodes with inputs and
// with the outputs that a computation gives which shares nothing with the kernels. Check runs a case
// on a device and also holds the kernel to executor.Kernel's contract.
//
// What holds the outputs themselves is a row by operator in oracle_table.go: ONNX's node tests,
// stock ONNX Runtime, PyTorch's numbers, finite differences, or a reason why nothing from outside
// does. Tests hold the rows to what these oracles confirm.
package kerneltest
