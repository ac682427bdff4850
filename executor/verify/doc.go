// Package verify executes models and compares their outputs and the memory that they need: a graph
// with its rewritten form, or any two models.
//
// # Comparison of two steps
//
// Measured steps of baseline and planned graph alternate (alternate.go), and the slowdown is the median ratio
// of steps that ran next to each other (slowdown.go), with the two times that it is made of: a machine that is
// busy now and then slows down both. Where memory does not suffice for both, it is the ratio of the medians.
// One step warms up first.
package verify
