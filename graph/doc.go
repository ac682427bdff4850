// Package graph is memopt's intermediate representation: an ONNX model as
// nodes and values with dense integer IDs.
//
// # Model, graph, node, value
//
// A [Model] is one file: its main [Graph], its model-local [Function]s, the operator sets that it
// imports and everything else that the file says about itself. A [Graph] owns its [Node]s and
// [Value]s. A NodeID indexes Graph.Nodes and a ValueID indexes Graph.Values, so an analysis keeps
// its findings in plain slices indexed by ID. Node IDs follow the file: node 0, for example, is the
// first node of the file. The IDs of one graph are meaningless in another.
//
// A value is made once: by a node (Value.Def), by the caller (a graph input),
// by the file (an initializer) or, in the subgraph of an If, Loop or Scan, by
// the enclosing graph (a captured value, Value.Outer). A node lists in
// Captures the values of its own graph that its subgraphs read, so a liveness
// analysis needs no look into subgraphs.
//
// # Files are preserved whole
//
// The parts of a file that memopt does not interpret travel with the part that holds them: Extra
// keeps wire fields without a Go field, and Wire keeps the encoded form of attributes, tensors and
// declarations until an edit. An edit replaces the part and leaves Wire empty; package graph/onnx
// then encodes the new contents.
//
// # Orders
//
// An [Order] is a sequence of all node IDs, every producer before its readers (a topological
// order). The order of the file is one of them; passes and planners choose others. No result
// depends on the iteration order of a Go map.
//
// # Text
//
// [Format] prints a model in ONNX's own textual syntax and [Parse] reads it,
// so that every analysis and every pass is tested as text in, text out.
//
// # Who may edit
//
// Analyses return new values and do not change the graph. Edits are [Pass]es: shape inference fills
// in Value.Type, inlining replaces calls to functions, and package recompute rewrites graphs.
// [Verify] states the conditions of a valid graph.
package graph
