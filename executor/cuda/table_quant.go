package cuda

import "memopt/graph/op"

// quantRows: conversions to small integers and back, and products of these.
var quantRows = []Row{
	{Kind: op.DequantizeLinear, New: quantization("dequantize_any", true)},
	{Kind: op.DynamicQuantizeLinear, New: newDynamicQuantize},
	{Kind: op.QuantizeLinear, New: quantization("quantize_any", false)},
}
