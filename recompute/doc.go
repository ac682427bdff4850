// Package recompute finds the nodes that can be recomputed in the backward half in place of a
// stash, and rewrites a graph to do so.
//
// # Finding
//
// [Find] takes every node with a stashed output (an entry) and searches upstream from it for the
// nodes that must be recomputed. The search succeeds where it meets values that are available in
// the backward half anyway: outputs of other entries, graph inputs, initializers, small shapes. It
// fails at an operator that must not run twice. Its result is a [Candidate]; candidates with the
// same operators in the same order share a [ClusterID], their name in plans: "Gelu+", for example.
//
// With a YieldOp the search is that of ONNX Runtime's memory optimizer (its recompute_analysis.cc),
// so that a configuration made for ORTModule means the same here. ONNX Runtime does not plan graphs
// without a YieldOp; for these the same search runs over memopt's own recompute classes.
//
// Strategy 1 frees the entry's stashed outputs. Strategy 2, the compromise,
// recomputes only from a widening Cast on and keeps the Cast's narrower input: it frees a
// share of the bytes.
//
// # Rewriting
//
// [Apply] applies a list of [Placement]s without choices of its own: it clones the named nodes
// before the named reader and lets the backward nodes that run later read the newest clone. Package
// planner chooses placements.
//
// # Candidates
//
// For every node with a stashed output, search.go searches upstream, breadth first. With a YieldOp, ortPolicy
// decides by ONNX Runtime's table, else classPolicy by the recompute classes of the operator table. The result
// is a Candidate, or a Rejection that names the node where the search failed.
//
// # Guards
//
// A rewrite takes readers from masks, and so changes the optimizations and kernels that stock ONNX Runtime
// applies. Guards (guard.go) keep it from computing other numbers than for the original graph. Only files for
// ONNX Runtime have guards; graphs that memopt executes have none of them.
//
// # Programs and graphs
//
// Emit fixes the sequence of nodes and clones, and Versions the readers of each newest clone. Emit writes into
// two sinks: the program of a plan (planner/place/program.go) and the graph (apply.go).
package recompute
