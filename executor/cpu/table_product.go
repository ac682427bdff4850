package cpu

import "memopt/graph/op"

// productRows: products of matrices and attention.
var productRows = []Row{
	{Kind: op.Det, New: widened(newDet)},
	{Kind: op.Einsum, New: widened(newEinsum)},
	{Kind: op.FusedGemm, New: widened(newFusedGemm)},
	{Kind: op.FusedMatMul, New: widened(newFusedMatMul)},
	{Kind: op.Gemm, New: widened(newGemm)},
	{Kind: op.MatMul, New: widened(newMatMul)},
	{Kind: op.MatMulInteger, New: newMatMulInteger},
	{Kind: op.QLinearMatMul, New: newQLinearMatMul},
}
