package op

// deeploy names the dialect.
const deeploy = "Deeploy's dialect"

// deeployRows are the operators that Deeploy (https://github.com/pulp-platform/Deeploy) takes in
// training graphs for microcontrollers in place of ONNX's and ONNX Runtime's operators: its front
// end fuses nodes and takes out operands for its own parsers. All of them count from version 1 on.
var deeployRows = []Info{
	{Kind: GeluGradDeeploy, Dialect: deeploy, Name: "GeluGrad", Since: []int{1}, Inputs: exactly(2),
		Outputs: exactly(1), Role: Gradient,
		Infer: elementwiseGradRule, Factors: elementwise, Class: Cheap, InPlace: []int{0, 1}, FLOPs: perElement(11, 0)},
	{Kind: GemmDeeploy, Dialect: deeploy, Name: "Gemm", Since: []int{1}, Inputs: Arity{2, 3}, Outputs: exactly(1),
		Infer: dense(batchedGemmRule), Class: Expensive, FLOPs: batchedGemmFLOPs},
	{Kind: LayerNormalizationGradDeeploy, Dialect: deeploy, Domain: domainMS, Name: "LayerNormalizationGrad",
		Since: []int{1}, Inputs: Arity{3, 4},
		Outputs: Arity{1, 3}, Role: Gradient, Infer: dense(layerNormGradDeeployRule), Class: Cheap,
		FLOPs: normGradFLOPs},
	{Kind: SGDDeeploy, Dialect: deeploy, Name: "SGD", Since: []int{1}, Inputs: exactly(2), Outputs: exactly(1),
		Role:  Gradient,
		Infer: dense(sgdDeeployRule), Class: Never, InPlace: []int{1}, FLOPs: perElement(2, 0),
		States: []Update{{0, 0}}},
	{Kind: SoftmaxCrossEntropyLossDeeploy, Dialect: deeploy, Name: "SoftmaxCrossEntropyLoss", Since: []int{1},
		Inputs: exactly(2), Outputs: exactly(1), Role: Loss,
		Infer: dense(logProbLossRule), Class: Cheap, FLOPs: lossFLOPs},
	{Kind: SoftmaxCrossEntropyLossGradDeeploy, Dialect: deeploy, Domain: domainMS, Name: "SoftmaxCrossEntropyLossGrad",
		Since: []int{1}, Inputs: exactly(2),
		Outputs: exactly(1), Role: Gradient, Infer: dense(unitLossGradRule), Class: Cheap, FLOPs: perElement(3, 0)},
}
