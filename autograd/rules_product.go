package autograd

import "memopt/graph/op"

// productRules: products of matrices and attention.
var productRules = []Row{
	{Kind: op.FusedGemm, Rule: fusedGemmRule},
	{Kind: op.FusedMatMul, Rule: fusedMatMulRule},
	{Kind: op.Gemm, Rule: gemmRule},
	{Kind: op.MatMul, Rule: matMulRule},
}
