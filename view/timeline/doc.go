// Package timeline is a training step as data, for pictures: the time and duration of every node, and
// the content of every byte of the arena from node to node. For example a block may hold the stash of
// a Gelu from step 17 to step 45 at byte 4096.
//
// The data come from a plan that has not run: the steps from the program that its graph is rewritten
// to, the bytes from the simulation of that ([live.Spans]), the offsets from its layout, the times
// from its costs. The blocks that are held at a step add up to the simulation's live bytes, to the
// byte.
package timeline
