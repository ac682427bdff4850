// Package autograd differentiates ONNX graphs: a forward model becomes a training graph
// with the gradients of its loss as further outputs, in standard ONNX operators.
//
// It is reverse-mode automatic differentiation by source transformation. The backward half is
// made by one sweep over the forward nodes from the last to the first. A node whose outputs have gradients
// hands them to the Rule of its operator, which emits nodes for the vector-Jacobian
// products and so gives gradients to the node's inputs. Gradients that a value gets from several readers
// are added up as they come. table.go lists the rules, one row per operator; each says what it
// stashes: which forward values its backward nodes read.
//
// Conventions: the gradient of a value has the value's type and shape. Integers, bools and the
// inputs that the operator table calls non-differentiable have none. At kinks a rule takes the subgradient
// that PyTorch takes.
package autograd
