package cuda

import "memopt/graph/op"

// ofBits is why the host computes with numbers of which a byte holds several.
const ofBits = "numbers of a few bits are made whole on the host"

// quantRows: conversions to small integers and back, and products of small integers.
var quantRows = []Row{
	{Kind: op.ConvInteger, New: newIntConv(false)},
	{Kind: op.DequantizeLinear, New: quantization("dequantize_any", true)},
	{Kind: op.DynamicQuantizeLinear, New: newDynamicQuantize},
	{Kind: op.GatherBlockQuantized, Why: ofBits},
	{Kind: op.MatMulInteger, New: newIntMatMul(false)},
	{Kind: op.MatMulNBits, Why: ofBits},
	{Kind: op.QLinearConv, New: newIntConv(true)},
	{Kind: op.QLinearMatMul, New: newIntMatMul(true)},
	{Kind: op.QuantizeLinear, New: quantization("quantize_any", false)},
}
