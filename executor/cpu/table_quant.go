package cpu

import "memopt/graph/op"

// onlyTensors is why operators of sequences and optionals have no kernel.
const onlyTensors = "the executor has no values besides tensors"

// quantRows: quantization, sequences and operators without a kernel.
var quantRows = []Row{
	{Kind: op.ConcatFromSequence, Why: onlyTensors},
	{Kind: op.DequantizeLinear, New: newDequantizeLinear, Packed: inBits},
	{Kind: op.DynamicQuantizeLinear, New: newDynamicQuantize},
	{Kind: op.Optional, Why: onlyTensors},
	{Kind: op.OptionalGetElement, Why: onlyTensors},
	{Kind: op.OptionalHasElement, Why: onlyTensors},
	{Kind: op.QLinearConv, New: newQLinearConv},
	{Kind: op.QuantizeLinear, New: newQuantizeLinear, Packed: inBits},
	{Kind: op.SequenceAt, Why: onlyTensors},
	{Kind: op.SequenceConstruct, Why: onlyTensors},
	{Kind: op.SequenceEmpty, Why: onlyTensors},
	{Kind: op.SequenceErase, Why: onlyTensors},
	{Kind: op.SequenceInsert, Why: onlyTensors},
	{Kind: op.SequenceLength, Why: onlyTensors},
	{Kind: op.SplitToSequence, Why: onlyTensors},
}
