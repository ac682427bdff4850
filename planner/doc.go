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
//
// # Order
//
// With a YieldOp, ONNX Runtime's memory-efficient order (MemoryEfficientOrder); otherwise the file's, put
// right where a file is out of order (graph.Topological). A graph that memopt has rewritten keeps its file's
// order, which is the order that its plan assumes, and so does one to which it has appended an update:
// FromGradients has put it in the order above, where updates have no place.
//
// # Strategy
//
// A configuration (planner/config.go), a level (planner/level.go, which keeps checkpoints where recomputing
// everything does not lower the peak, and recomputes nothing where that would take more than the graph as it
// is), or the placements of a plan file.
//
// # Demands
//
// What is to be kept and to be recomputed is resolved before any strategy chooses. Candidates that run a kept
// node are left out, and forced ones stand on the bench beside whatever is tried (place.Bench.Forced); a
// search for a budget has the forced runs in every answer (remat.Graph.Fixed), and its bounds speak of plans
// that obey; placements of a plan file are edited (planner/place/beside.go).
//
// # Regions in parts
//
// What a budget does not get at next to no cost is looked for in graphs of which chunk.Propose would have
// regions in parts: request.cut (cut.go) makes the request for such a graph, with what is given by node or by
// name turned into that of parts, and it is planned as any other. Every list of cuts gets a first plan in
// little counted work (budget.Options.First, Brief); the one with the cheapest is searched at the budget
// itself (At). Plan.Whole is the plan of the graph as it was given; what speaks of the baseline asks
// Plan.Baseline. partcost.go says what parts cost beyond the whole.
//
// # Formulas
//
// The simulator notes which sizes it compares (live.Decisions), op.FailuresNoting which bounds: where all of
// that comes out alike, values share memory alike, and the bytes of every step are a sum of symbolic sizes. A
// box of sizes is cut where an answer changes, then where the worst step does. Proofs are symbolic's; what is
// not proved is cut further, so a formula is exact or refused. planner/span.go plans for a box at once.
//
// # Costs
//
// One place turns a node into seconds: the roofline of a device profile (configs/devices/*.json: rates by
// element type for products and for loops, bandwidth, time of a launch, each with its source), or what run
// --profile measured (--cost, configs/cost.go: the median over the steps but the first; a clone's times count
// for its original). Nodes that were not measured keep their estimate, scaled to those that were, and a
// warning counts them. Plan.NodeSeconds hands the costs out.
package planner
