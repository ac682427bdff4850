// Package planner chooses what to recompute and says what it is worth.
//
// [Make] takes a model with its types and a [Strategy]: a [Level], a [Config] of
// "ClusterID:Strategy:Count" entries, a [Budget], or the placements of a [PlanFile]. What it
// returns is a [Plan], complete and not changed afterwards. A strategy sees the analysis of package
// recompute, sizes, costs and the graph as it is, and an evaluator (package place) on which it tries its
// choices; a maker holds what the searches of one plan share.
//
// # Strategies
//
// A level or a configuration selects candidates; package place decides where in the backward half
// each value is made again and in how many copies. A budget asks for the cheapest plan whose arena
// fits, over all forward nodes that can run again: package budget searches and proves. [Pareto]
// does so for many budgets. With Budget.Clusters only what a configuration can express is searched,
// by package cluster. Which plans are searched does not depend on the budget.
//
// # Order
//
// OrderMemory looks for an order of execution with a lower peak before anything is recomputed
// (package order), and takes it if the plan in it is no worse.
//
// # Promise
//
// The planner simulates the program that the rewritten graph will execute: the peak of a plan and
// the simulated peak of the graph that recompute.Apply writes for it are the same number, and a
// test holds this.
package planner
