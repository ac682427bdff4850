// Package parallel estimates, by arithmetic alone, the memory of a training step on each of several
// devices: data parallel with ZeRO (Rajbhandari and others, 2020, arXiv 1910.02054), tensor parallel and
// sequence parallel as Megatron-LM (Shoeybi and others, 2019, arXiv 1909.08053; Korthikanti and others,
// 2022, arXiv 2205.05198), pipelines under 1F1B and interleaved (Narayanan and others, 2021, arXiv
// 2104.04473).
//
// A [Layout] is the number of devices per kind of parallelism, for example 8 for tensor parallel times 4
// stages. [Split] cuts a micro-step (the step of one micro-batch, which adds to sums of gradients) into
// the graphs of the stages, with the sizes that values have on one rank of each, and plans them with the
// planner for one device. So the memory of a stage follows from its own graph instead of a formula for
// an architecture:
//
//	total = weights + gradients + state + (in flight − 1) × stash + peak of one micro-batch
//
// # Tensor parallel
//
// The divided axis of each value follows from the factors of operators (op.Factor), the directions that
// divide their work (rules.go). It starts from weights: those that the file's annotations shard (IR
// version 11), else those that Megatron's rule divides (megatron.go): the columns of the linears that
// read a whole activation, the rows of those that read a divided one, the rows of the table of tokens,
// and heads with the columns that they are made of. A division that ends anywhere but in a row-parallel
// linear or the loss is not supported, and its weights stay whole.
//
// Communication is not in the graph: a sum over ranks has the place of the summed value. With sequence
// parallel, the input of a column-parallel linear is gathered into a buffer first; the largest such
// buffer counts beside the arena.
package parallel
