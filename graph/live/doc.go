// Package live answers questions about time: which nodes belong to the forward half of a training
// graph and which to the backward half, the live range of each value, which activations are stashed
// for the backward half, and how many bytes are live at the peak.
//
// # Boundary
//
// [FindBoundary] looks for the place where the forward half ends: at
// ORTModule's YieldOp, else where the model's metadata says, else at the loss.
// [Split] then marks every node as forward or backward.
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
// # Boundary
//
// A YieldOp, else the metadata entry memopt.boundary, else the loss: the first scalar float output that a loss
// operator leads to (or the first at all). With a YieldOp a node is backward if it runs after it; otherwise if
// the loss does not depend on it and it reads what forward made.
//
// # Composition
//
// What a report says of the peak, graph/live/compose.go sums up over a simulated program: every buffer counts
// as what lies in it at that step. Which values are gradients and which nodes update follows from states and
// operators (graph/live/roles.go), not from names alone. The parts of a moment add up to inputs, weights and
// the live bytes of that step; with the arena's gaps, to the total.
//
// # Other runtimes' memory
//
// live.Sizes.Aliased replaces what the op table says of views and of writing in place, in the simulator and in
// the search's tasks alike; readers behind a clone read it then, as in a schedule of runs, and clones alias
// nothing. live.Program.Hidden has the bytes that clones take besides values. configs/deeploy.go writes
// Plan.Sequence as a schedule, and its test replays it.
package live
