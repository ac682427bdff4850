package cuda

import "memopt/graph/op"

// attentionRows: attention, and what surrounds it in transformers.
var attentionRows = []Row{
	{Kind: op.Attention, New: newAttention, HostInputs: []int{6}},
	{Kind: op.AttentionMS, New: newAttentionMS},
	{Kind: op.BiasAdd, New: newBiasAdd},
	{Kind: op.BiasSoftmax, New: newBiasSoftmax},
	{Kind: op.BiasSoftmaxDropout, New: newBiasSoftmaxDropout, HostInputs: []int{2}},
	{Kind: op.Det, New: newDet},
	{Kind: op.Einsum, New: newEinsum},
	{Kind: op.EmbedLayerNormalization, New: newEmbedNorm, HostInputs: []int{0, 1, 8}},
	{Kind: op.FusedGemm, New: newFusedGemm},
	{Kind: op.GroupNorm, New: newLastGroupNorm},
	{Kind: op.Hardmax, New: newHardmax},
	{Kind: op.LRN, New: newLRN},
	{Kind: op.LpNormalization, New: newLpNorm},
	{Kind: op.MeanVarianceNormalization, New: newMeanVariance},
	{Kind: op.MultiHeadAttention, New: newMultiHeadAttention},
	{Kind: op.RotaryEmbedding, New: newRotary(false), HostInputs: []int{3}},
	{Kind: op.RotaryEmbeddingMS, New: newRotary(true), HostInputs: []int{1}},
	{Kind: op.SkipLayerNormalization, New: newSkipNorm(false)},
	{Kind: op.SkipSimplifiedLayerNormalization, New: newSkipNorm(true)},
	{Kind: op.TopK, New: newTopK, HostInputs: []int{1}},
}
