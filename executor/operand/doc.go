// Package operand works out what a run of a node is to do, from its attributes and from inputs that
// the host reads: axes, shapes, bounds, sizes. Devices share it, so that they agree on what is
// allowed and on the messages; how the data are copied or computed is up to them. Operators that
// only copy elements are complete here: see Move and Copier.
//
// Functions with a *executor.Ctx belong to Run: their errors say what is wrong with which operand,
// and they allocate nothing once buffers have grown. A value of each type serves one node and keeps
// such buffers from run to run. Inputs that are read must be in host memory. Lengths, places and
// steps count elements unless stated otherwise.
package operand
