package op

import (
	"errors"

	"memopt/graph"
)

// batchNormTrains reports whether a BatchNormalization takes the statistics of its batch and updates
// the running ones: an attribute says it, and before version 14, from 7 on, more than one output does.
func batchNormTrains(n *graph.Node, version int) bool {
	switch {
	case version >= 14:
		return n.Int("training_mode", 0) != 0
	case version >= 7:
		return len(n.Outputs) > 1
	}
	return n.Int("is_test", 0) == 0
}

// internalTrains: the attribute of ONNX Runtime's own form is true by default.
func internalTrains(n *graph.Node, _ int) bool { return n.Int("training_mode", 1) != 0 }

// evaluateBatchNorm has the running statistics taken, and not updated.
func evaluateBatchNorm(n *graph.Node, version int) error {
	n.Outputs = n.Outputs[:1]
	switch {
	case n.Attr("training_mode") != nil || n.Kind == BatchNormInternal:
		n.SetAttr("training_mode", int64(0))
	case version < 7:
		n.SetAttr("is_test", int64(1))
	}
	return nil
}

// evaluateDropout turns a Dropout into an identity: before version 7 by an attribute; from 12 on by
// leaving out the training input.
func evaluateDropout(n *graph.Node, version int) error {
	if version < 7 {
		n.SetAttr("is_test", int64(1))
		return nil
	}
	return withoutInput(2)(n, version)
}

// withoutInput leaves out an optional input of a node.
func withoutInput(slot int) func(n *graph.Node, version int) error {
	return func(n *graph.Node, _ int) error {
		if slot < len(n.Inputs) {
			n.Inputs[slot] = graph.NoValue
			for len(n.Inputs) > 0 && n.Inputs[len(n.Inputs)-1] == graph.NoValue {
				n.Inputs = n.Inputs[:len(n.Inputs)-1]
			}
		}
		return nil
	}
}

// onlyTrains is for operators that have no other form.
func onlyTrains(*graph.Node, int) error {
	return errors.New("only training has it: it has no form for evaluation")
}
