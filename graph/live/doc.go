// Package live answers questions about time: which nodes belong to the forward half of a training
// graph and which to the backward half, the live range of each value, which activations are stashed
// for the backward half, and how many bytes are live at the peak.
//
// # Boundary
//
// [FindBoundary] looks for the place where the forward half ends, and [Split] then marks every node as forward
// or backward. The boundary is a YieldOp, else the metadata entry memopt.boundary, else the loss: the first
// scalar float output of a loss operator, or the first scalar float output at all. With a YieldOp, a node is a
// backward node if it runs after it. Otherwise a backward node reads forward values and has no path to the
// loss.
//
// # The memory model
//
// A value occupies its bytes from the step that makes it to the last step that reads it; graph
// outputs to the end. For the bytes of a step, all its operands and results are live. Views cost no
// bytes and keep their source alive; an operator whose row allows it writes into an input of the
// same size that no later step reads. So a Relu whose input dies adds no bytes, for example. Graph
// inputs, initializers and Constant nodes are persistent: live throughout and counted apart. The
// next value of a [State], an input that the next training step reads anew, is written into that
// input's buffer if the old value is not read any more; otherwise it has bytes of its own to the
// end, where it is copied. [Simulate] applies these rules to an order and returns the live bytes of
// every step. The planner's predictions, the executor's arenas and the reports depend on this
// function. The search to a budget keeps sums of its own over lists of clones (planner/remat), and
// a test holds them to it byte by byte; the memory of stock ONNX Runtime is simulated in sim/ort.
//
// # Composition
//
// compose.go breaks the peak down for reports. It walks a simulated program and counts every buffer as the
// value that lies in it at that step. Gradients and update nodes are told by states and operators (roles.go),
// not by names alone. The parts of a step add up to inputs, weights and live bytes; together with the gaps of
// the arena, to the total.
//
// # Other runtimes' memory
//
// Sizes.Aliased replaces the views and the in-place writes of the operator table, both in the simulator and in
// the tasks of the search. A reader behind a clone then reads the clone, as in a schedule of runs, and clones
// alias no other value. Program.Hidden holds the bytes that clones take besides their values.
// configs/deeploy.go writes Plan.Sequence as such a schedule, and its test replays it.
package live
