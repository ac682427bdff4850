// Package planner chooses recomputations and evaluates their memory and cost.
//
// [Make] takes a model with its types and a [Strategy]: a [Level], a [Config] of "ClusterID:Strategy:Count"
// entries (for example "Gelu+:1:2"), a [Budget], or the placements of a [PlanFile]. It returns a [Plan],
// which is complete and immutable. A strategy sees the analysis of package recompute, sizes, costs and the
// unchanged graph, and an evaluator (package place) for its trials; a maker holds the state that searches of one
// plan share.
//
// # Strategies
//
// A level or a configuration selects candidates; package place decides where in the backward half each value
// is recomputed and in how many copies. A budget asks for the cheapest plan whose arena fits, over all nodes
// that can be recomputed: package budget searches and proves. [Pareto] does so for many budgets. With
// Budget.Clusters, package cluster searches only configurations. The set of searched plans does not depend on
// the budget.
//
// A level (level.go) keeps checkpoints where recomputing everything does not lower the peak, and recomputes no
// node where that would take more than the unchanged graph.
//
// # Promise
//
// The planner simulates the program that the rewritten graph will execute: the peak of a plan and
// the simulated peak of the graph that recompute.Apply writes for it are the same number, and a
// test holds this.
//
// # Order
//
// OrderMemory looks for an order of execution with a lower peak before recomputation (package order), and
// takes it if the plan in it is no worse. The other orders are those of files and runtimes:
// with a YieldOp, ONNX Runtime's memory-efficient order (MemoryEfficientOrder); otherwise the file's, put
// right where a file is out of order (graph.Topological). A graph that memopt has rewritten keeps its file's
// order, which is the order that its plan assumes, and so does one to which it has appended an update:
// FromGradients has put it in the order above, which has no place for updates.
//
// # ORTModule
//
// With Options.ORTModule the memory of a plan is that in a session of ORTModule (session.go), which package ortsim
// simulates (TrainingPeak): a level's graph as ORTModule's own optimizer makes it (recompute.ByORTModule), that of a
// budget as Apply writes it, in its order, with nodes that free unread outputs. A search for a budget judges each trial
// so, and begins from level 1 and from each of its clusters. It makes the same trials whatever the budget is, as
// far as the time allows, so that a larger one does not cost more. Bounds of peaks there are those of package remat at
// exact sizes: a session shares no more memory than memopt does.
//
// # Demands
//
// Names to keep and to recompute, for example h.*.attn, are resolved before any strategy chooses. Candidates
// that recompute a kept node are left out, and the evaluator adds the forced ones to every trial
// (place.Evaluator.Forced); a search for a budget has the forced runs in every answer (remat.Graph.Fixed),
// and its bounds refer to plans that obey; placements of a plan file are edited (planner/place/beside.go).
//
// # Regions in parts
//
// If a plan without chunking costs more than a trifle, chunked variants of the graph are tried
// (chunk.Propose): request.cut (chunked.go) makes the request for such a graph, with options given by node or by
// name converted to its parts, and it is planned as any other. Every list of cuts gets a first plan in little
// counted work (budget.Options.First, Brief); the one with the cheapest is searched at the budget itself
// (At). Plan.Whole is the plan of the original graph; Plan.Baseline is the plan to compare with. cost.go
// computes the cost of parts beyond the whole.
//
// # Formulas
//
// The simulator notes the sizes that it compares (live.Decisions), and op.FailuresNoting the bounds: as long
// as all comparisons have the same answers, values share memory alike, and the bytes of every step are a sum
// of symbolic sizes. A box of sizes is cut where an answer changes, then where the worst step does. Proofs
// are symbolic's; a box without a proof is cut further, so a formula is exact or refused. planner/span.go
// plans for a box at once.
//
// # The simulations of memory
//
// The bytes of a schedule are added up in six places, because six callers ask different questions of it. Tests
// compare the first four with each other or with slow twins, byte by byte, and the last two with the runtimes:
//
//	graph/live      Program.Simulate: a list of steps with operands; views, in-place writes, state,
//	                chunks. Plans, arenas and reports refer to it (TestSimulateAgainstReference).
//	planner/place   Evaluator: writes the program of one set of placements, without a graph, and has live
//	                simulate it: O(steps) a trial (TestPlansOfRandomGraphs simulates the rewritten graph).
//	planner/remat   ledger: a list of extra runs in a fixed order of first runs, kept up to date in
//	                O(log n) a change, for searches with millions of changes (TestLedger; TestTasksAgree
//	                holds Graph.Simulate to live).
//	planner/remat   tape: any sequence of computations with the set of needed values after each, for
//	                instances of up to some hundred nodes, where the order of extra runs is free
//	                (TestProblemTape). Problem.Simulate is the plain form for any schedule.
//	sim/ort         ONNX Runtime's: its own rewrites, order, reuse of buffers, workspaces and arena.
//	sim/torch       PyTorch's eager mode: storages, saved tensors, checkpointed modules.
//
// The first four follow one set of rules, and differ in the state that they keep between two questions. For example, a
// search that moves one recomputation asks the ledger, the plan that it settles on is simulated by live, and
// the budget's promise is live's number. The last two follow rules of other programs and share no code with
// them. executor/layout.go has no simulation of its own: it runs live's for the steps that it executes.
//
// # Costs
//
// One place turns a node into seconds: the roofline of a device profile (configs/devices/*.json: rates by
// element type for products and for loops, bandwidth, time of a launch, each with its source), or times
// measured by run --profile (--cost, configs/cost.go: the median over the steps but the first; a clone's
// times count for its original). Nodes that were not measured keep their estimate, scaled to those that were,
// and a warning counts them. Plan.NodeSeconds hands the costs out.
package planner
