package cuda

import "memopt/graph/op"

// attentionRows: attention and its neighbours in transformers.
var attentionRows = []Row{
	{Kind: op.Attention, New: newAttention, HostInputs: []int{6}},
	{Kind: op.AttentionMS, Why: forInference},
	{Kind: op.BiasAdd, New: newBiasAdd},
	{Kind: op.BiasSoftmax, New: newBiasSoftmax},
	{Kind: op.BiasSoftmaxDropout, New: newBiasSoftmaxDropout, HostInputs: []int{2}},
	{Kind: op.Det, Why: noGradient},
	{Kind: op.Einsum, New: newEinsum},
	{Kind: op.EmbedLayerNormalization, Why: forInference},
	{Kind: op.FusedGemm, New: newFusedGemm},
	{Kind: op.GroupNorm, Why: forInference},
	{Kind: op.Hardmax, Why: notTrained},
	{Kind: op.LRN, New: newLRN},
	{Kind: op.LpNormalization, Why: notTrained},
	{Kind: op.MeanVarianceNormalization, Why: notTrained},
	{Kind: op.MultiHeadAttention, Why: forInference},
	{Kind: op.RotaryEmbedding, New: newRotary(false), HostInputs: []int{3}},
	{Kind: op.RotaryEmbeddingMS, New: newRotary(true), HostInputs: []int{1}},
	{Kind: op.SkipLayerNormalization, Why: forInference},
	{Kind: op.SkipSimplifiedLayerNormalization, Why: forInference},
	{Kind: op.TopK, New: newTopK, HostInputs: []int{1}},
}
