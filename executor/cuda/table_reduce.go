package cuda

import "memopt/graph/op"

// reduceRows: reductions, softmaxes, norms and losses, and their gradients.
var reduceRows = []Row{
	{Kind: op.LogSoftmax, New: softmax("logsoftmax", false, false)},
	{Kind: op.LogSoftmaxGrad, New: softmax("logsoftmaxgrad", true, true)},
	{Kind: op.LogSoftmaxGrad13, New: softmax("logsoftmaxgrad", true, false)},
	{Kind: op.Softmax, New: softmax("softmax", false, false)},
	{Kind: op.SoftmaxGrad, New: softmax("softmaxgrad", true, true)},
	{Kind: op.SoftmaxGrad13, New: softmax("softmaxgrad", true, false)},
}
