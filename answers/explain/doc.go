// Package explain says why memory is live at the peak of a plan, and which changes would lower that
// peak.
//
// Every live byte belongs to one row: a value, with its producer, the node that it waits for and
// why it is kept; the memory of a kernel or a subgraph; or unused bytes of a buffer. For example a
// row may be the stash of a Gelu, held by its gradient. The rows of the step at the peak add up to
// the simulated peak. Savings by recomputing a value or by another order are not estimated but
// planned, and the plan's peak is the answer.
package explain
