// Package timeline is a training step as data, for pictures: what runs when and for how long, and
// which bytes hold what from which node to which, at which place of the arena.
//
// Everything comes from a plan that has not run: the steps from the program that its graph is
// rewritten to, the bytes from the simulation of that ([live.Spans]), the places from its layout, the
// times from its costs. The blocks that are held at a step add up to the simulation's live bytes, to
// the byte.
package timeline
