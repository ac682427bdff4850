package cuda

import "memopt/graph/op"

// productRows: products of matrices, by the vendor's library.
var productRows = []Row{
	{Kind: op.FusedMatMul, New: newFusedMatMul},
	{Kind: op.Gemm, New: newGemm},
	{Kind: op.MatMul, New: newMatMul},
}
