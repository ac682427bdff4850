package cuda

import "memopt/graph/op"

// productRows: products of matrices, by the vendor's library.
var productRows = []Row{
	{Kind: op.FusedMatMul, New: newFusedMatMul},
	{Kind: op.FusedMatMulAdd, New: newFusedMatMulAdd},
	{Kind: op.Gemm, New: newGemm},
	{Kind: op.MatMul, New: newMatMul},
	{Kind: op.MatMulAdd, New: newMatMulAdd},
}
