// Package cpu is the reference device: kernels in Go, products of matrices by BLAS.
//
// table.go lists the kernels by operator: one row each. A file is named after the family of its
// operators, as in graph/op: for example, conv*.go has the convolutions. A kernel is a struct made
// once per node: its maker reads attributes and element types, Run reads shapes and computes. Loops
// run in parallel as a Task: a pointer to the kernel struct itself, or to a type defined from it,
// so that runs do not allocate.
//
// float16 and bfloat16 are read and written as such and computed in float32.
package cpu
