package cpu

import "memopt/graph/op"

// productRows: products of matrices and attention.
var productRows = []Row{
	{Kind: op.Attention, New: widened(newAttention)},
	{Kind: op.AttentionMS, New: widened(newAttentionMS)},
	{Kind: op.Det, New: widened(newDet)},
	{Kind: op.Einsum, New: widened(newEinsum)},
	{Kind: op.FusedGemm, New: widened(newFusedGemm)},
	{Kind: op.FusedMatMul, New: products(newFusedMatMul)},
	{Kind: op.FusedMatMulAdd, New: widened(newFusedMatMulAdd)},
	{Kind: op.Gemm, New: products(newGemm)},
	{Kind: op.GroupQueryAttention, Why: "it keeps its cache in place, for inference"},
	{Kind: op.MatMul, New: products(newMatMul)},
	{Kind: op.MatMulAdd, New: widened(newMatMulAdd)},
	{Kind: op.MatMulInteger, New: newMatMulInteger},
	{Kind: op.MatMulNBits, New: widened(newMatMulNBits)},
	{Kind: op.MultiHeadAttention, New: widened(newMultiHeadAttention)},
	{Kind: op.QLinearMatMul, New: newQLinearMatMul},
	{Kind: op.RotaryEmbedding, New: widened(newRotary(false))},
	{Kind: op.RotaryEmbeddingMS, New: widened(newRotary(true))},
}
