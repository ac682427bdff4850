// Package optimize makes a forward model smaller and faster before it is run: constants are computed
// once, what has no effect is removed, and nodes that together are one operator become that operator,
// within the operators and the version that the model imports. It is a list of passes, each with
// tables of rows by operator; they run in turn until none changes anything, which ends because each
// edit leaves fewer nodes, or fewer bytes, than there were.
//
// Some passes keep every bit of every output in memopt's executor; others compute the same with
// another rounding. [Passes] says which. No file grows: a constant that is larger than what it
// replaces is computed in every run as before.
//
// Graphs with a backward half are refused (ErrTraining): plans and configurations name their nodes,
// and which values their halves share is what planning is about. Nodes of a forward model that are in
// training mode, a Dropout that drops or a norm that takes the statistics of its batch, stay as they
// are, unless Options.Inference asks for the form in which networks are evaluated.
//
// Nodes in subgraphs of If, Loop and Scan stay as they are.
//
// # How it works
//
// inference/optimize is a table of passes (passes.go) that run until none changes anything. Each is a sweep
// over the nodes with rows by operator: what gives its input as it is (identity.go), which neighbours become
// one (chains.go), what scales channels and whose weights take that in (affine.go), what a Gemm or a
// convolution takes in (products.go), which nodes are one operator (patterns.go). An edit.Editor keeps readers
// and makers up to date within a sweep, so rules ask for the graph as it is; types are inferred before a
// sweep, without what the file says of values that nodes make. Constants are computed by the CPU's kernels in
// one session (evaluate.go), if the file does not grow by them (filesize.go counts bytes as the format has
// them). inference/quantize runs the passes that keep bits first, decides for each weight whether all its
// readers can take integers, and writes the forms of their rows (uses.go, write.go). inference/compare runs
// the model before and after on the same data; a verb writes the file after that.
package optimize
