// Package edit edits the graph of a forward model, for rewrites for inference: an Editor replaces
// nodes and values one at a time and keeps track of readers, so that a pass may go over the nodes
// once and see its own edits. It edits the main graph; values that subgraphs capture keep their
// names.
package edit
