// Package operand derives the parameters of a node's run, axes, shapes, bounds and sizes, from its
// attributes and from inputs that the host reads. Devices share it, so that they agree on valid
// operands and on the messages; how the data are copied or computed is up to them. Operators that
// only copy elements are complete here: see Move and Copier.
//
// Functions with a *executor.Ctx belong to Run: their errors name the operand and its fault, and
// they do not allocate once buffers have grown. A value of each type serves one node and keeps such
// buffers from run to run. Inputs that are read must be in host memory. Lengths, places and steps
// count elements unless stated otherwise.
package operand
