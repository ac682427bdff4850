// Package edit is what rewrites of a forward model for inference share: an Editor replaces nodes and
// values of a graph one at a time and keeps track of who reads what, so that a pass may go over the
// nodes once and see what it has done before. The main graph is edited; what subgraphs take from it
// keeps its name.
package edit
