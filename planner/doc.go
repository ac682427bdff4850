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
// # Budgets
//
// With Options.Budget the plan is the cheapest that is found whose arena fits, over all forward
// nodes that can run again; package remat searches and proves. [Pareto] does so for many budgets.
// Which plans are searched does not depend on the budget.
//
// With Budget.Clusters, the selection is the configuration of clusters that recomputes for the
// least time among those found whose arena fits the budget. Small spaces are searched through. In
// others the front of time against peak is explored without regard to the budget, and the budget
// only picks from it, so that a larger one never costs more.
//
// # Order
//
// OrderMemory looks for an order of execution with a lower peak before anything is recomputed: list
// scheduling in both directions, then moves of nodes out of the step at which the order peaks. The
// halves keep their nodes, and states and random draws their sequence.
//
// # Promise
//
// The planner simulates the program that the rewritten graph will execute: the
// peak of a plan and the simulated peak of the graph that recompute.Apply writes
// for it are the same number, and a test holds this.
package planner
