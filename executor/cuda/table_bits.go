package cuda

import "memopt/graph/op"

// bitRows: bounds, bits, remainders and tests of numbers.
var bitRows = []Row{
	{Kind: op.BitShift, New: newBitShift},
	{Kind: op.BitwiseAnd, New: bitwise("and")},
	{Kind: op.BitwiseNot, New: newBitwiseNot},
	{Kind: op.BitwiseOr, New: bitwise("or")},
	{Kind: op.BitwiseXor, New: bitwise("xor")},
	{Kind: op.Clip, New: newClip},
	{Kind: op.IsFinite, New: classify("isfinite")},
	{Kind: op.IsInf, New: newIsInf},
	{Kind: op.IsNaN, New: classify("isnan")},
	{Kind: op.Mod, New: division("mod", floatMod)},
	{Kind: op.Shrink, New: newShrink},
}
