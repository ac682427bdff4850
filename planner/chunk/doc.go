// Package chunk cuts regions of a training graph into parts that run one after the other, so that
// what is large inside a region is never there as a whole: the logits and their gradient of a
// language model's head, the scores of attention, the hidden units of an MLP. It is a rewrite of the
// graph into ordinary operators, before recomputation is planned.
//
// # Regions
//
// A region is a set of nodes, of either half, and a dimension along which the work of each of them
// falls into parts (op.Factor). Of its values, some exist in parts alone; inputs of the region are cut,
// or taken whole by every part; what is read outside is joined, or is a sum to which every part adds.
//
// The dimension may be several dims that follow each other from the first on, counted as one: the
// rows of a batch of sequences, the heads of a batch. Then a part is a run of consecutive elements of
// every value that is cut, so that parts of inputs are views, and parts of outputs are written where
// they belong (package live, Slices). Along an inner dim, parts are copies.
//
// # Stages
//
// Where the region's nodes form one piece, every part is computed from beginning to end before the
// next one begins. Where something outside needs what all parts make before the rest of the region
// can run (the loss's gradient comes from outside, attention's backward half needs that of the layers
// above), the region has stages, each of which runs part by part. What earlier stages hand to later
// ones stays in parts, each of which the planner can then recompute by itself. What lies between nodes
// of the region and has a few numbers for each row belongs to it, however small, so that it makes no
// stages.
//
// The idea is that of F-Trans in MAGIS (Chen et al., "MAGIS: Memory Optimization via Coordinated
// Graph Transformation and Scheduling for DNN", ASPLOS 2024); the head across both halves is that of
// Liger's fused linear cross-entropy (Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM
// Training", 2024).
//
// # Files
//
// Before the analysis, regions of the graph may be cut into parts along a dimension. along.go says by the
// factors of the operator table how a node falls into parts, region.go grows a region around a value,
// writer.go gives its nodes stages and writes them part by part into the order, emitter.go slices, joins and
// sums, mean.go takes means. The result is a graph of ordinary nodes, bound to sizes, in its file's order; its
// plan knows the graph as it was (planner.Plan.Whole). propose.go says which cuts are worth planning, floor.go
// below what no cut and no recomputation gets.
package chunk
