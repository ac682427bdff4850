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
// autograd/differentiate.go marks what the losses depend on and through what the wanted gradients flow
// (flow.go), and sweeps over the nodes from the last to the first (sweep.go). A rule (table.go, one row per
// operator) reads its node through a Ctx and emits nodes; the types of what it emits are inferred at once
// (op.Extender), so that rules can ask for shapes. Broadcasting is undone by SumTo, at run time where dims do
// not tell. Gradients of slices wait as those of parts (parts.go) until the whole is needed, and are joined,
// scattered or handed to a product alone (cut.go). Nodes that together are one operator, as a table of
// patterns says (fuse_table.go, found by graph/pattern), have that operator's gradient (fuse.go). Bodies of
// If, Loop and Scan are differentiated as graphs of their own (nested.go, subgraph.go). Where a rule needs a
// newer operator set, Convert raises the model and the sweep starts anew (attempt.go). outputs.go leaves out
// outputs that are not wanted, and sink.go then lets products compute only what is taken of them. arrange.go
// puts forward and backward nodes in order and drops what nobody reads; optimizer.go appends updates, with
// parameter groups (groups.go) and, by scalars that make an update change nothing, a guard against losses and
// gradients that are not finite (guard.go). gradients.go makes a Joint of a graph that has its gradients
// already, which gradients_edit.go freezes or makes a micro-step; statistics.go keeps running statistics that
// a file drops, and inference.go makes the form in which a network is evaluated (op.Info.Evaluate). Of a
// micro-step, accumulate.go lets each parameter's gradient begin as the sum so far, and updatestep.go makes
// the graph that applies the sums.
package autograd
