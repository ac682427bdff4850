// Package optimize makes a forward model smaller and faster before it is run: constants are computed once,
// nodes without an effect are removed, and nodes that together are one operator become that operator, within
// the operators and the version that the model imports. It is a list of passes, each with tables of rows by
// operator; they run in turn until the graph no longer changes, which ends because each edit leaves fewer
// nodes, or fewer bytes, than there were.
//
// Some passes keep every bit of every output in memopt's executor; others round differently. [Passes] tells
// them apart. No file grows: a constant that is larger than its operands is computed in every run as before.
//
// Graphs with a backward half are refused (ErrTraining): plans and configurations name their nodes, and passes
// would change the stashed activations, which plans choose among. Nodes of a forward model that are in
// training mode, a Dropout that drops or a norm that takes the statistics of its batch, stay as they are,
// unless Options.Inference asks for the form for evaluation.
//
// Nodes in subgraphs of If, Loop and Scan stay as they are.
//
// # How it works
//
// The table of passes (passes.go) runs until no pass changes the graph. A pass is a sweep over the nodes with
// rows by operator: identities (identity.go), chains of neighbours that merge (chains.go), scales and shifts
// of channels that move into weights (affine.go), nodes that a Gemm or a convolution absorbs (products.go),
// and patterns of one operator (patterns.go).
//
// An edit.Editor keeps readers and producers up to date within a sweep, so that rules see the current graph.
// Types are inferred before each sweep, without the file's statements about computed values. The CPU's kernels
// compute constants in one session (evaluate.go), unless the file would grow by them (filesize.go counts bytes
// as the format stores them).
//
// Package inference/quantize runs the bit-preserving passes first, decides for each weight whether all its
// readers take integers, and writes the integer forms (uses.go, write.go). Package inference/compare runs the
// model before and after on the same data; only then does a verb write the file.
package optimize
