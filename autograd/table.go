package autograd

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// Row is an operator's entry in the table of gradients.
type Row struct {
	Kind graph.Kind
	// Rule emits the gradients.
	Rule Rule
	// Expand replaces the forward node by simpler ones before differentiation, for operators that
	// ONNX defines by a function body: it returns the values that replace the node's outputs, or
	// nil to keep the node.
	Expand func(c *Ctx) []Value
	// Same reports whether output 0 of a node is its input 0, element by element and with the same
	// shape, as for an Identity, for example. Nil means that it never is.
	Same func(c *Ctx) bool
	// Cheap says that one pass over the input makes the output, if the other inputs are constants:
	// the backward half may do so in place of stashing it (Ctx.In).
	Cheap bool
	// Cut returns the axis of each input that is cut where the output is cut along an axis, and -1
	// for an input that is needed whole: to compute a part of a MatMul's rows, for example, the rule
	// slices the left factor and takes the right one whole. The result is nil if the output has no
	// such parts. The rule then asks for inputs by In and for shapes by SumToInput. A nil Cut means
	// that no output of the operator is ever cut.
	Cut func(c *Ctx, axis int64) []int64
	// CutPays says that the backward half then saves more than the slices take.
	CutPays bool
	// Sinks says that the operator takes slices of its input between bounds that are inputs, and so may
	// do that before the node that makes the input.
	Sinks bool
	// Operands has the inputs that may hold floats and have no gradient by the rule, with the reason.
	Operands []Operand
	// Quantizes says that outputs are quantized numbers of floats, whatever the inputs are.
	Quantizes bool
	// Quantized says that the rule passes on gradients of quantized numbers (quantized.go).
	Quantized bool
	// Sequence is the operator's part in sequences of tensors (sequence.go).
	Sequence sequence
	// None says why no gradient flows through the operator: its derivative is zero wherever it
	// exists, or it has no differentiable input.
	None string
	// Why says why there is no rule for an operator that has a derivative.
	Why string
}

var table [op.NumKinds]Row

// init fills the table. The table is not an initial value because rules read it through their
// callees.
func init() {
	table = buildTable(mathRules, reduceRules, shapeRules, productRules, nnRules, sequenceRules, missingRules)
}

// buildTable puts the rows of all families in their places. A duplicate is a bug, found by the
// first test that runs.
func buildTable(families ...[]Row) [op.NumKinds]Row {
	var t [op.NumKinds]Row
	for _, rows := range families {
		for _, row := range rows {
			if t[row.Kind].Kind != op.Unknown {
				panic(fmt.Sprintf("autograd: %s has two rows", op.Of(row.Kind).Name))
			}
			t[row.Kind] = row
		}
	}
	return t
}

// Of returns the row of a kind.
func Of(k graph.Kind) *Row { return &table[k] }
