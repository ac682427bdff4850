package autograd

import "memopt/graph/op"

// productRules: products of matrices and attention.
var productRules = []Row{
	{Kind: op.Attention, Expand: expandAttention},
	{Kind: op.AttentionMS, Expand: expandAttentionMS, Operands: []Operand{{Slot: 4, Why: whyCache}}},
	{Kind: op.Einsum, Rule: einsumRule},
	{Kind: op.FusedGemm, Rule: fusedGemmRule},
	{Kind: op.FusedMatMul, Rule: fusedMatMulRule},
	{Kind: op.Gemm, Rule: gemmRule},
	{Kind: op.MatMul, Rule: matMulRule, Cut: cutMatMul, CutPays: true},
	{Kind: op.MatMulNBits, Rule: matMulNBitsRule, Operands: []Operand{
		{Slot: 1, None: "its elements are packed integers"},
		{Slot: 2, Why: whyScales, Setting: true}, {Slot: 3, Why: whyScales, Setting: true}}},
	{Kind: op.MultiHeadAttention, Expand: expandMultiHeadAttention,
		Operands: []Operand{{Slot: 6, Why: whyCache}, {Slot: 7, Why: whyCache}}},
	{Kind: op.RotaryEmbedding, Rule: rotaryEmbeddingRule, Operands: settings(1, 2)},
}
