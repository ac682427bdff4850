package cuda

import "memopt/graph/op"

// bitRows: bounds, bits, remainders and tests of numbers.
var bitRows = []Row{
	{Kind: op.BitShift, Why: notTrained},
	{Kind: op.BitwiseAnd, Why: notTrained},
	{Kind: op.BitwiseNot, Why: notTrained},
	{Kind: op.BitwiseOr, Why: notTrained},
	{Kind: op.BitwiseXor, Why: notTrained},
	{Kind: op.Clip, New: newClip},
	{Kind: op.IsFinite, New: classify("isfinite")},
	{Kind: op.IsInf, New: newIsInf},
	{Kind: op.IsNaN, New: classify("isnan")},
	{Kind: op.Mod, New: division("mod", floatMod)},
	{Kind: op.Shrink, Why: notTrained},
}
