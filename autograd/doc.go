// Package autograd differentiates ONNX graphs: a forward model becomes a training graph
// with the gradients of its loss as further outputs, in standard ONNX operators.
//
// It is reverse-mode automatic differentiation by source transformation. The backward half is made
// by one sweep over the forward nodes from the last to the first. A node whose outputs have
// gradients hands them to the Rule of its operator, which emits nodes for the vector-Jacobian
// products and so gives gradients to the node's inputs. Gradients that a value gets from several
// readers are added up as they come, each sum in the memory of one of its terms. table.go lists the
// rules, one row per operator; each names its stash: the forward values that its backward nodes
// read. For c = a·b, for example, da = dc·bᵀ stashes b.
//
// A rule that scatters, such as Gather's, scatters onto the present gradient: the table of an
// embedding that is also a matrix of scores has one gradient, without zeros beside it. The slices are
// then added to it one after the other, and not as a sum of their own, so that a row that was looked
// up twice may be rounded otherwise than by the plain sum, and -0 may stand for 0.
//
// Nodes that together are one operator, norms, GELUs and softmaxes as exporters write them, have that
// operator's gradient, which reads less of the forward half and rounds otherwise than theirs.
// fuse_table.go lists the patterns. The forward nodes stay.
//
// Conventions: the gradient of a value has the value's type and shape. Integers and bools have no
// gradient, nor have inputs whose row of the table gives a mathematical reason (Operand.None), such as
// Range's end: the output is constant between jumps. A gradient that exists and that no rule makes is a
// *NoRule wherever it is wanted, and never left out of a sum. Rounding to quantized numbers has a
// straight-through estimate (quantized.go).
//
// # Kinks and ties
//
// Where an operator has no derivative its rule takes the subgradient that PyTorch takes for its
// function of the same meaning (TestKinks has the numbers):
//
//	Abs, Sign, ReduceL1       0 at 0
//	Relu, ThresholdedRelu     0 at the threshold; LeakyRelu, PRelu: the slope of the negative side
//	Elu, Selu, Celu           at 0 the limit from below
//	Clip                      1 on both bounds, as torch.clamp; a bound has the gradient beyond it
//	HardSigmoid               0 on both bounds; HardSwish: x/3 + 1/2 from -3 to 3
//	Max, Min                  halves to two that are equal, pairwise from the left, as torch.maximum
//	ReduceMax, ReduceMin      equal shares to all that are the extreme, as torch.amax
//	MaxPool, GlobalMaxPool    all to the first that is the largest
//	TopK                      to the places that the forward run chose
//	ReduceL2                  0 where the norm is 0
//	cross-entropies           0 where all labels are ignored, though the mean itself is no number
//
// Three functions of PyTorch are exported as an operator that also stands for another function, and
// get that one's subgradient: hardtanh and relu6 are Clip in a file, and have 1 and not 0 on their
// bounds; max over a dim is ReduceMax, and shares its gradient among equals instead of giving it to
// one; clamp by tensors is Max and Min, and gives halves to equals.
//
// # How it works
//
//   - differentiate.go marks the values that the losses depend on and that lead to a wanted gradient
//     (flow.go), and sweeps over the nodes from the last to the first (sweep.go).
//   - A rule (table.go has one row per operator) reads its node through a Ctx and emits nodes. Their types
//     are inferred at once (op.Extender), so that rules can ask for shapes. SumTo undoes broadcasting, at run
//     time where dims are unknown.
//   - Gradients of slices wait as gradients of parts (gradparts.go) until the whole is needed; then they are
//     joined, scattered, or handed to a product part by part (bypart.go).
//   - Nodes that together are one operator by a table of patterns (fuse_table.go, package graph/pattern)
//     have the gradient of that operator (fuse.go).
//   - Bodies of If, Loop and Scan are differentiated as graphs of their own (nested.go, subgraph.go).
//   - Where a rule needs a newer operator set, Convert raises the model and the sweep starts anew
//     (attempt.go).
//   - outputs.go drops unwanted outputs, and sink.go then shrinks products to the elements that are read.
//   - arrange.go orders forward and backward nodes and drops nodes without readers.
//   - optimizer.go appends updates, with parameter groups (groups.go) and a guard that turns an update into
//     a no-op where the loss or a gradient is not finite (guard.go).
//   - gradients.go makes a Joint of a graph that has its gradients already; gradients_edit.go freezes its
//     parameters or makes a micro-step of it.
//   - statistics.go keeps running statistics that a file drops, and inference.go makes the evaluation form
//     of a network (op.Info.Evaluate).
//   - In a micro-step, accumulate.go starts each gradient from the sum so far; updatestep.go makes the graph
//     that applies the sums.
package autograd
