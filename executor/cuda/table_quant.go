package cuda

import "memopt/graph/op"

// ofBits is why the host computes with packed numbers, several to a byte.
const ofBits = "numbers of a few bits are made whole on the host"

// quantRows: conversions to small integers and back, and products of small integers.
var quantRows = []Row{
	{Kind: op.ConvInteger, Why: ofIntegers},
	{Kind: op.DequantizeLinear, New: quantization("dequantize_any", true)},
	{Kind: op.DynamicQuantizeLinear, Why: ofIntegers},
	{Kind: op.GatherBlockQuantized, Why: ofBits},
	{Kind: op.MatMulInteger, Why: ofIntegers},
	{Kind: op.MatMulNBits, Why: ofBits},
	{Kind: op.QLinearConv, Why: ofIntegers},
	{Kind: op.QLinearMatMul, Why: ofIntegers},
	{Kind: op.QuantizeLinear, New: quantization("quantize_any", false)},
}
