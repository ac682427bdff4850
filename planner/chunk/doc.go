// Package chunk computes regions of a training graph in chunks, one after the other, so that large tensors
// inside a region never exist as a whole: the logits and their gradient of a language model's head, the scores
// of attention, the hidden units of an MLP. It is a rewrite of the graph into ordinary operators, before
// recomputation is planned.
//
// # Regions
//
// A region is a set of nodes, of either half, and a dimension to divide each of them along (op.Factor). Some
// of its values exist in parts alone; inputs of the region are sliced, or taken whole by every part; live-outs
// are joined, or are sums over the parts.
//
// The dimension may be several dims that follow each other from the first on, counted as one: for example the
// rows of a batch of sequences, or the heads of a batch. Then a part is a run of consecutive elements of every
// sliced value, so that parts of inputs are views, and parts of outputs are written in place (package live,
// Slices). Along an inner dim, parts are copies.
//
// # Stages
//
// If the region's nodes are connected, every part is computed from beginning to end before the next one
// begins. If a node outside needs the outputs of all parts before the rest of the region can run (the loss's
// gradient comes from outside, attention's backward half needs that of the layers above), the region has
// stages, each computed part by part. Values passed from earlier stages to later ones stay in parts, and the
// planner can then recompute each part by itself. Nodes between those of the region with a few numbers for
// each row belong to it, however small, so that they make no stages.
//
// The idea is that of F-Trans in MAGIS (Chen et al., "MAGIS: Memory Optimization via Coordinated Graph
// Transformation and Scheduling for DNN", ASPLOS 2024); the head across both halves is that of Liger's fused
// linear cross-entropy (Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024).
//
// # Files
//
// The rewrite comes before the analysis. along.go divides a node by the factors of its operator's row in the
// operator table, region.go grows a region around a value, writer.go gives its nodes stages and writes them
// part by part into the order, emitter.go slices, joins and sums, means.go takes means. The result is a graph
// of ordinary nodes, bound to sizes, in its file's order; its plan keeps the original graph
// (planner.Plan.Whole). propose.go lists cuts worth planning, and floor.go computes a lower bound for every
// cut and recomputation.
package chunk
