package cuda

import "memopt/graph/op"

// fusedRows: activations with a bias, and the gradients of activations.
var fusedRows = []Row{
	{Kind: op.BiasFastGeluGradDX, New: activationGrad("fastgelugrad", 2)},
	{Kind: op.BiasGelu, New: biasActivation("biasgelu")},
	{Kind: op.BiasGeluGradDX, New: activationGrad("gelugrad", 2)},
	{Kind: op.BiasSplitGelu, Why: forInference},
	{Kind: op.FastGelu, New: biasActivation("fastgelu")},
	{Kind: op.FastGeluGrad, New: activationGrad("fastgelugrad", 2)},
	{Kind: op.GeluGrad, New: activationGrad("gelugrad", 2)},
	{Kind: op.LeakyReluGrad, New: activationGrad("leakyrelugrad", -1, attr{"alpha", 0.01})},
	{Kind: op.QuickGeluGrad, New: activationGrad("quickgelugrad", -1, attr{"alpha", 1.702})},
	{Kind: op.ReluGrad, New: activationGrad("relugrad", -1)},
	{Kind: op.SigmoidGrad, New: activationGrad("sigmoidgrad", -1)},
	{Kind: op.TanhGrad, New: activationGrad("tanhgrad", -1)},
}
