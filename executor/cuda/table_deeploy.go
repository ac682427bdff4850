package cuda

import "memopt/graph/op"

// forMicrocontrollers is why the host runs most of Deeploy's dialect.
const forMicrocontrollers = "the graphs of this dialect are trained on microcontrollers, and their tensors are too " +
	"small for a GPU"

// deeployRows: the dialect of Deeploy's training graphs.
var deeployRows = []Row{
	{Kind: op.GeluGradDeeploy, New: activationGrad("gelugrad", 2)},
	{Kind: op.GemmDeeploy, Why: forMicrocontrollers},
	{Kind: op.LayerNormalizationGradDeeploy, Why: forMicrocontrollers},
	{Kind: op.SGDDeeploy, Why: forMicrocontrollers},
	{Kind: op.SoftmaxCrossEntropyLossDeeploy, Why: forMicrocontrollers},
	{Kind: op.SoftmaxCrossEntropyLossGradDeeploy, Why: forMicrocontrollers},
}
