// Package verify executes models and compares what they give and what they need: a graph with
// its rewritten self, or any two models.
package verify
