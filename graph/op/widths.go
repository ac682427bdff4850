package op

import "memopt/graph"

// Widths says in floats of which widths a node may compute where a graph is computed in mixed precision.
type Widths uint8

const (
	// Wide: float32 alone. So are all operators that have no row below: reductions, softmaxes, losses, powers,
	// recurrences.
	Wide Widths = iota
	// Either: float32 or 16 bits. The operator moves elements, or computes each from a few.
	Either
	// Narrow: 16 bits alone. The operator is a product whose kernels add up in float32, or a norm whose statistics
	// are float32.
	Narrow
)

// narrow lists the operators that compute in 16 bits.
var narrow = []graph.Kind{
	BatchNormalization, Conv, ConvTranspose, FusedGemm, FusedMatMul, Gemm, LayerNormalization, MatMul,
	RMSNormalization, SimplifiedLayerNormalization,
}

// either lists the operators that compute in float32 or in 16 bits.
var either = []graph.Kind{
	Abs, Add, AveragePool, BiasGelu, CenterCropPad, Celu, Clip, Concat, DepthToSpace, Div, Dropout, Elu, Erf, Expand,
	FastGelu, Flatten, Gather, GatherElements, GatherND, Gelu, GeluMS, GlobalMaxPool, HardSigmoid, HardSwish, Identity,
	IsNaN, LeakyRelu, Max, MaxPool, Min, Mish, Mul, Neg, PRelu, Pad, QuickGelu, Relu, Reshape, Resize, Selu, Sigmoid,
	Slice, Softplus, Softsign, SpaceToDepth, Split, Squeeze, Sub, Sum, Swish, Tanh, ThresholdedRelu, Tile, Transpose,
	Trilu, Unsqueeze, Where,
}

var widthsOf = func() (w [NumKinds]Widths) {
	for _, k := range narrow {
		w[k] = Narrow
	}
	for _, k := range either {
		w[k] = Either
	}
	return w
}()

// WidthsOf returns the widths of an operator.
func WidthsOf(k graph.Kind) Widths { return widthsOf[k] }

// sharesWidth reports whether a formal operand has the type variable of output 0 or of input 0, where these may be
// floats.
func (s *signature) sharesWidth(o *operand) bool {
	if o == nil || o.variable == "" {
		return false
	}
	for _, list := range [][]operand{s.inputs, s.outputs} {
		if len(list) > 0 && list[0].variable == o.variable && inSet(list[0].types.tensor, graph.Float32) {
			return true
		}
	}
	return false
}

// InputWidth reports whether an input of a node has the width that the node computes in. The others keep their type:
// the statistics of a norm, for example, stay float32.
func InputWidth(n *graph.Node, opsets []graph.Opset, i int) bool {
	sig := signatureOf(n, opsets)
	return sig != nil && sig.sharesWidth(slot(sig.inputs, i))
}

// OutputWidth is InputWidth for an output.
func OutputWidth(n *graph.Node, opsets []graph.Opset, i int) bool {
	sig := signatureOf(n, opsets)
	return sig != nil && sig.sharesWidth(slot(sig.outputs, i))
}

// signatureOf is the signature of a node's operator; nil for one that memopt does not know.
func signatureOf(n *graph.Node, opsets []graph.Opset) *signature {
	info := Of(n.Kind)
	return info.signature(info.VersionOf(n, graph.OpsetVersion(opsets, info.Domain)))
}
