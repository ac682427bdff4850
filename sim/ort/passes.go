package ort

// level is when an optimization runs (TransformGraph in session/inference_session.cc).
type level uint8

const (
	basic     level = iota // Level1, before nodes are given to a device: official operators only
	partition              // the assignment of nodes to devices
	extended               // Level2, for the CPU, with ONNX Runtime's own operators
)

// pass is an optimization of ONNX Runtime that memory or the order depends on.
type pass struct {
	name  string // of the class in ONNX Runtime's sources
	file  string // below onnxruntime/core/
	level level
	after []string // optimizations that must come first, or it would miss something
	why   string   // why it stands where it does
	run   func(*optimizer)
}

// passes has the optimizations in the order of GenerateTransformers in
// optimizer/graph_transformer_utils.cc; its rules (GenerateRewriteRules) come first at each level.
// The transformers of a level are repeated until a round makes no change, at most ten times
// (GraphTransformerManager::ApplyTransformers); an optimization that only a second round finds
// comes after the one that made it possible.
//
// Left out are those that change neither memory nor order in a training graph, or that are not
// simulated: fusions of LayerNormalization, Gelu and attention, the moves of Transpose, the layout
// of convolutions in blocks of channels (docs/onnxruntime.md).
var passes = []pass{
	{"EliminateIdentity, EliminateDropout", "optimizer/identity_elimination.cc, dropout_elimination.cc", basic, nil,
		"rewrite rules come first, so that costlier passes have less to do", (*optimizer).removeCopies},
	{"ConstantSharing", "optimizer/constant_sharing.cc", basic, nil,
		"nodes that read equal constants become nodes that read the same", (*optimizer).shareConstants},
	{"CommonSubexpressionElimination", "optimizer/common_subexpression_elimination.cc", basic,
		[]string{"EliminateIdentity, EliminateDropout", "ConstantSharing"},
		"copies and equal constants would hide that nodes are equal", (*optimizer).mergeEqual},
	{"ConstantFolding", "optimizer/constant_folding.cc", basic, nil,
		"as in the sources, behind the merging of nodes", (*optimizer).foldConstants},
	{"MatMulAddFusion", "optimizer/matmul_add_fusion.cc", basic, nil,
		"as in the sources", each((*optimizer).addRow)},
	{"ReshapeFusion", "optimizer/reshape_fusion.cc", basic, nil,
		"as in the sources", each((*optimizer).joinViews)},
	{"GemmTransposeFusion", "optimizer/gemm_transpose_fusion.cc", basic, []string{"MatMulAddFusion"},
		"a rewrite rule, which finds the Gemm of a MatMul and an Add in the second round",
		each((*optimizer).transposeGemm)},
	{"GraphPartitioner", "framework/graph_partitioner.cc", partition, nil,
		"operators without a kernel become their function bodies between the levels", (*optimizer).expand},
	{"GemmActivationFusion, ConvActivationFusion", "optimizer/gemm_activation_fusion.cc, conv_activation_fusion.cc",
		extended, nil,
		"as in the sources", each((*optimizer).activate)},
	{"MatmulTransposeFusion", "optimizer/matmul_transpose_fusion.cc", extended, nil,
		"as in the sources; by then a MatMul with a row is a Gemm", each((*optimizer).transpose)},
	{"MatMulScaleFusion", "optimizer/matmul_scale_fusion.cc", extended, []string{"MatmulTransposeFusion"},
		"a factor may stand before a Transpose that the product reads through", each((*optimizer).scale)},
}
