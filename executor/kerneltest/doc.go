// Package kerneltest has the conformance cases of kernels, for every device: nodes with
// inputs and, where an independent computation gives them, expected outputs. Check
// runs a case on a device and also holds the kernel to executor.Kernel's contract.
package kerneltest
