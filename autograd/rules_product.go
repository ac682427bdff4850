package autograd

import "memopt/graph/op"

// productRules: products of matrices and attention.
var productRules = []Row{
	{Kind: op.Attention, Expand: expandAttention},
	{Kind: op.AttentionMS, Expand: expandAttentionMS},
	{Kind: op.Einsum, Rule: einsumRule},
	{Kind: op.FusedGemm, Rule: fusedGemmRule},
	{Kind: op.FusedMatMul, Rule: fusedMatMulRule},
	{Kind: op.Gemm, Rule: gemmRule},
	{Kind: op.MatMul, Rule: matMulRule, Cut: cutMatMul, CutPays: true},
	{Kind: op.MatMulInteger, None: ofIntegers},
	{Kind: op.MatMulNBits, Rule: matMulNBitsRule},
	{Kind: op.MultiHeadAttention, Expand: expandMultiHeadAttention},
	{Kind: op.QLinearMatMul, None: ofIntegers},
	{Kind: op.RotaryEmbedding, Rule: rotaryEmbeddingRule},
}
