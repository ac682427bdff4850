// Package verify executes models and compares their outputs and the memory that they need: a graph
// with its rewritten form, or any two models.
package verify
