// Package explain says why memory is live at the peak of a plan, and what would lower that peak.
//
// Every live byte belongs to one row: a value, with who made it, which node it waits for and why it
// is kept; what a kernel or a subgraph takes; or a buffer's bytes in which nothing lies yet. The
// rows of the step at the peak add up to the simulated peak. What it would save to make a value
// again, or to run the nodes in another order, is not estimated: it is planned, and the plan's peak
// is the answer.
package explain
