// Package examples generates the training graphs that a user can name as example:NAME in place of a
// model file, and that tests and benchmarks use at any size. It reads and downloads no files; the
// same options give the same graph, byte for byte.
//
// # What the graphs are
//
// Each is a joint graph: a forward half, a loss, and the gradient of the loss by every weight.
// Weights are graph inputs with static shapes, as in the graphs of ONNX
// Runtime's ORTModule, so that a model of any size is a small file. The outputs are the
// gradients, <weight>_grad, in the order of the weights.
//
// Two dialects occur. Transformer and CNN speak ORTModule's: the loss passes
// through a com.microsoft YieldOp, whose output is the loss's gradient, and the
// backward half uses ONNX Runtime's gradient operators (SoftmaxGrad_13,
// LayerNormalizationGrad, DropoutGrad, ConvGrad …). MLP uses ONNX's own
// operators only, has the loss among its outputs, and runs anywhere.
//
// # How they are made
//
// A mini tape (tape.go) records forward operators. Every operator has one
// function that adds its forward node and pushes a closure that adds its
// gradient, the vector-Jacobian product: given dL/dy it gives dL/dx for each
// tracked input x. So the forward and the backward of one operator stand side
// by side:
//
//	matmul.go       MatMul by a weight, Gemm, batched MatMul
//	elementwise.go  Add of a bias or a residual, Mul by a constant, Where, Relu, Gelu
//	softmax.go      Softmax, Dropout
//	norm.go         LayerNormalization, BatchNormInternal
//	shape.go        Reshape, Transpose, Split, Gather, Cast
//	conv.go         Conv, GlobalAveragePool
//	loss.go         the two losses, with and without YieldOp
//
// A value that n operators read gets n gradient contributions <value>_grad_0 …, which a Sum adds up
// to <value>_grad; with one reader the contribution is the gradient. Within a closure the gradient
// of a weight comes before the gradient of the activation: in the order of the file it is made, and
// its operands can be freed, as early as possible.
//
// Nodes and values are named as PyTorch's exporter and ONNX Runtime's gradient builder
// name them: /transformer/h.0/attn/Softmax makes
// /transformer/h.0/attn/Softmax_output_0, and
// /transformer/h.0/attn/Softmax_Grad/SoftmaxGrad_13_0 is the first node of its gradient.
package examples
