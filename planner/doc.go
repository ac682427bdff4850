// Package planner chooses what to recompute and says what it is worth.
//
// A plan is made in four steps. [Make] takes the analysis of package recompute;
// a selection — a level, a configuration of "ClusterID:Strategy:Count" entries, or a
// plan file — turns candidates on; the placer decides where in the backward
// half each value is made again and in how many copies; and the simulator of package live gives the
// peak before and after.
//
// # Placement
//
// A value is made again right before the first backward node that reads it. From
// there it lives on to its later readers: one copy. Where that keeps it across
// the step at which the plan peaks, it is dropped after the last reader before the peak and
// made once more for the next reader behind it, provided that the simulated peak
// falls. Nodes inside a subgraph that several values need are shared the same
// way. So sharing and copying are both decided by the peak, never by a rule of thumb.
//
// # Promise
//
// The planner simulates the program that the rewritten graph will execute: the
// peak of a plan and the simulated peak of the graph that recompute.Apply writes
// for it are the same number, and a test holds this.
package planner
