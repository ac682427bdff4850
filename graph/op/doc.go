// Package op is the operator table: everything that memopt knows about an operator apart
// from its gradient and its kernels stands in one row.
//
// # Adding an operator
//
// Add its Kind to kind.go and its row to the table file of its family (table_math.go,
// table_shape.go, table_nn.go, table_control.go, table_microsoft.go). The shape rule goes into a
// file named after the operator or its family, the same base name that the gradient and the kernels
// have in their packages. A test walks the kinds and names the row that lacks a column. No other
// package asks for an operator's name: each property that a pass asks for is a column here. So
// planner/chunk, for example, reads Factors and never asks whether a node is a MatMul.
//
// # Shape inference
//
// [Infer] walks a graph in order and calls each node's shape rule with a
// [Ctx]. A rule reads the types of the inputs and, where the operator's result
// shape depends on contents (Reshape, Expand, Slice …), the contents of small
// tensors, which the rules carry along as expressions: Shape → Gather →
// Concat → Reshape gives a shape in terms of the graph's own symbols.
//
// The assumptions of a rule:
//
//   - A symbol is a dim of at least 1; sizes that a legal run divides divide
//     without remainder (Reshape, Split into equal parts).
//   - Two different symbols that meet in a broadcast do not stretch, see
//     [Ctx.Broadcast].
//   - Floats in the arithmetic of shapes are exact fractions.
//
// Unknown dims stay unknown: no rule invents a symbol or guesses 1. A contradiction of the
// operator's definition is an error that names the node; no input makes a rule panic, or take time
// or memory beyond its size.
//
// The contents of a tensor are carried for up to 256 elements of integers and bools and
// 16 of floats; a shape has a handful.
//
// # Rows of ONNX Runtime's memory optimizer
//
// The column ORT repeats which operators ONNX Runtime's memory optimizer recomputes (its
// recompute_analysis.cc), at which levels, for which schema versions, and which inputs its search
// ignores. The column Class is memopt's own judgement and independent of it.
package op
