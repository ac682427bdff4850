package roles

import (
	"memopt/graph"
	"memopt/graph/op"
)

// row has the roles of an operator's operands, by their slots.
type row struct {
	// weights are operands that a network learns.
	weights []int
	// fixed are operands that belong to the computation.
	fixed map[int]Role
	// through is the operand that the outputs show, moved, cast or cut; its own role is theirs.
	through []int
	// addend says that a number added to a product is its bias, where it is as wide as the product.
	addend bool
	// product says that the operator multiplies: factors of positions whose sines and cosines are
	// taken are frequencies.
	product bool
	// angle says that the operator takes a sine or a cosine.
	angle bool
	// choice says that operands may be masks.
	choice bool
	// zeroStates are operands that are the initial state of a recurrence, no weights if all are
	// zero.
	zeroStates []int
}

func constant(why string) Role  { return Role{Constant, why} }
func scale(why string) Role     { return Role{Scale, why} }
func statistic(why string) Role { return Role{Statistic, why} }

// table has the operators whose operands have a role of their own; the sources are ONNX's and ONNX
// Runtime's definitions of the operators.
var table = buildTable()

func buildTable() (t [op.NumKinds]row) {
	add := func(r row, kinds ...graph.Kind) {
		for _, k := range kinds {
			t[k] = r
		}
	}
	weights := func(slots []int, kinds ...graph.Kind) { add(row{weights: slots}, kinds...) }
	fixed := func(k graph.Kind, r row, roles map[int]Role) {
		r.fixed = roles
		t[k] = r
	}
	add(row{through: []int{0}}, op.Identity, op.Cast, op.CastLike, op.Reshape, op.Unsqueeze, op.Squeeze, op.Flatten,
		op.Transpose, op.Expand, op.Tile, op.Slice, op.Split)
	add(row{through: []int{0, 1, 2, 3, 4, 5, 6, 7}}, op.Concat)
	add(row{angle: true}, op.Sin, op.Cos)
	add(row{product: true, choice: true}, op.Mul)
	add(row{addend: true, choice: true}, op.Add)
	add(row{choice: true}, op.Sub, op.Where)
	add(row{product: true, weights: []int{0, 1}}, op.MatMul, op.Einsum)
	weights([]int{0, 1, 2}, op.Gemm)
	weights([]int{1, 2}, op.Conv, op.ConvTranspose, op.FusedConv, op.InstanceNormalization, op.LayerNormalization,
		op.GroupNormalization, op.SimplifiedLayerNormalization, op.RMSNormalization)
	weights([]int{1, 3}, op.DeformConv)
	weights([]int{1}, op.PRelu)
	// A constant's own exponential would be a constant: only a number that is learned, such as the
	// temperature of CLIP, is kept as its logarithm.
	weights([]int{0}, op.Exp, op.Sigmoid, op.Softplus, op.Tanh)
	add(row{weights: []int{1, 2, 3, 7}, zeroStates: []int{5, 6}}, op.LSTM)
	add(row{weights: []int{1, 2, 3}, zeroStates: []int{5}}, op.GRU, op.RNN)
	add(row{zeroStates: []int{0, 1, 2, 3, 4, 5, 6, 7}}, op.Scan, op.Loop)

	fixed(op.Pow, row{}, map[int]Role{1: constant("the exponent of Pow")})
	bound := constant("a bound of Clip")
	fixed(op.Clip, row{}, map[int]Role{1: bound, 2: bound})
	fixed(op.BatchNormalization, row{weights: []int{1, 2}}, map[int]Role{3: statistic("a running mean"),
		4: statistic("a running variance")})
	fixed(op.Pad, row{}, map[int]Role{2: constant("the fill of Pad")})
	fixed(op.OneHot, row{}, map[int]Role{2: constant("the values of OneHot")})
	fixed(op.Dropout, row{}, map[int]Role{1: constant("the ratio of Dropout")})
	end := constant("a bound of Range")
	fixed(op.Range, row{}, map[int]Role{0: end, 1: end, 2: end})
	fixed(op.Resize, row{}, map[int]Role{1: constant("the region of Resize"), 2: constant("the scales of Resize")})
	fixed(op.Upsample, row{}, map[int]Role{1: constant("the scales of Upsample")})
	classes := map[int]Role{2: constant("the weights of classes")}
	fixed(op.SoftmaxCrossEntropyLoss, row{}, classes)
	fixed(op.NegativeLogLikelihoodLoss, row{}, classes)
	fixed(op.SoftmaxCrossEntropyLossInternal, row{}, classes)
	fixed(op.NegativeLogLikelihoodLossInternal, row{}, classes)
	angles := constant("a table of sines and cosines")
	fixed(op.RotaryEmbedding, row{}, map[int]Role{1: angles, 2: angles})
	fixed(op.RotaryEmbeddingMS, row{}, map[int]Role{2: angles, 3: angles})
	fixed(op.GroupQueryAttention, row{}, map[int]Role{7: angles, 8: angles})
	fixed(op.Attention, row{}, map[int]Role{3: constant("a mask")})

	quantized, by := scale("quantized weights"), scale("a scale of quantization")
	fixed(op.DequantizeLinear, row{}, map[int]Role{0: quantized, 1: by, 2: by})
	fixed(op.QuantizeLinear, row{}, map[int]Role{1: by, 2: by})
	fixed(op.QLinearConv, row{}, map[int]Role{1: by, 2: by, 4: by, 5: by, 6: by, 7: by})
	fixed(op.QLinearMatMul, row{}, map[int]Role{1: by, 2: by, 4: by, 5: by, 6: by, 7: by})
	fixed(op.MatMulNBits, row{weights: []int{5}}, map[int]Role{1: quantized, 2: by, 3: by})
	fixed(op.GatherBlockQuantized, row{}, map[int]Role{0: quantized, 2: by, 3: by})
	return t
}
