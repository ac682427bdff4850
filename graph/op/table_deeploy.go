package op

// deeploy names the dialect.
const deeploy = "Deeploy's dialect"

// deeployRows are the operators that Deeploy (https://github.com/pulp-platform/Deeploy) takes in
// training graphs for microcontrollers in place of ONNX's and ONNX Runtime's operators: its front
// end fuses nodes and takes out operands for its own parsers. All of them count from version 1 on.
var deeployRows = []Info{
	define(GeluGradDeeploy, "GeluGrad", versions(1), exactly(2), exactly(1), Cheap, elementwiseGradRule,
		dialect(deeploy), role(Gradient), factors(elementwise), inPlace(0, 1), flops(perElement(11, 0))),
	row(GemmDeeploy, "Gemm", versions(1), Arity{2, 3}, exactly(1), Expensive, batchedGemmRule, dialect(deeploy),
		flops(batchedGemmFLOPs)),
	row(LayerNormalizationGradDeeploy, "LayerNormalizationGrad", versions(1), Arity{3, 4}, Arity{1, 3}, Cheap,
		layerNormGradDeeployRule, domain(domainMS), dialect(deeploy), role(Gradient), flops(normGradFLOPs)),
	row(SGDDeeploy, "SGD", versions(1), exactly(2), exactly(1), Never, sgdDeeployRule, dialect(deeploy),
		role(Gradient), inPlace(1), flops(perElement(2, 0)), states(Update{0, 0})),
	row(SoftmaxCrossEntropyLossDeeploy, "SoftmaxCrossEntropyLoss", versions(1), exactly(2), exactly(1), Cheap,
		logProbLossRule, dialect(deeploy), role(Loss), flops(lossFLOPs)),
	row(SoftmaxCrossEntropyLossGradDeeploy, "SoftmaxCrossEntropyLossGrad", versions(1), exactly(2), exactly(1), Cheap,
		unitLossGradRule, domain(domainMS), dialect(deeploy), role(Gradient), flops(perElement(3, 0))),
}
