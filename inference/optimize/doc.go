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
package optimize
