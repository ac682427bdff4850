package autograd

import "memopt/graph/op"

const (
	onlyShape = "it reads only the shape of its input"
	drawn     = "its output is a random draw"
	isSize    = "it is a number of elements, which is constant between jumps"
)

var (
	rangeOperands = []Operand{
		{Slot: 0, Setting: true},
		{Slot: 1, None: "it only sets how many elements there are, which is constant between jumps"},
		{Slot: 2, Setting: true},
	}
	oneHotOperands = []Operand{
		{Slot: 0, None: "it is rounded to an index, which is constant between jumps"},
		{Slot: 1, None: isSize},
	}
)

// shapeRules: operators that move data.
var shapeRules = []Row{
	{Kind: op.ATen, Rule: atenRule, Expand: expandATen},
	{Kind: op.Bernoulli, None: drawn},
	{Kind: op.CenterCropPad, Rule: centerCropPadRule},
	{Kind: op.Compress, Rule: compressRule},
	{Kind: op.Concat, Rule: concatRule},
	{Kind: op.ConcatTraining, Rule: concatRule},
	{Kind: op.ConstantOfShape, None: "it reads a shape"},
	{Kind: op.DepthToSpace, Rule: depthToSpaceRule},
	{Kind: op.Expand, Rule: expandRule},
	{Kind: op.EyeLike, None: onlyShape},
	{Kind: op.Flatten, Rule: reshapeRule, Quantized: true},
	{Kind: op.FlattenAndUnpad, Rule: flattenAndUnpadRule},
	{Kind: op.Gather, Rule: gatherRule},
	{Kind: op.GatherBlockQuantized, Why: whyIntegers, Operands: settings(2)},
	{Kind: op.GatherElements, Rule: gatherElementsRule},
	{Kind: op.GatherND, Rule: gatherNDRule},
	{Kind: op.Identity, Rule: identityRule, Same: func(*Ctx) bool { return true }, Cut: cutSame, Quantized: true},
	{Kind: op.MemcpyFromHost, Rule: identityRule},
	{Kind: op.MemcpyToHost, Rule: identityRule},
	{Kind: op.Multinomial, None: drawn},
	{Kind: op.OneHot, Rule: oneHotRule, Operands: oneHotOperands},
	{Kind: op.Pad, Rule: padRule},
	{Kind: op.PadAndUnflatten, Rule: padAndUnflattenRule},
	{Kind: op.RandomNormal, None: drawn},
	{Kind: op.RandomNormalLike, None: onlyShape},
	{Kind: op.RandomUniform, None: drawn},
	{Kind: op.RandomUniformLike, None: onlyShape},
	{Kind: op.Range, Rule: rangeRule, Operands: rangeOperands},
	{Kind: op.Reshape, Rule: reshapeRule, Quantized: true},
	{Kind: op.ReverseSequence, Rule: reverseSequenceRule},
	{Kind: op.Scatter, Rule: scatterElementsRule},
	{Kind: op.ScatterElements, Rule: scatterElementsRule},
	{Kind: op.ScatterND, Rule: scatterNDRule},
	{Kind: op.Shape, None: onlyShape},
	{Kind: op.ShrunkenGather, Rule: gatherRule},
	{Kind: op.Size, None: onlyShape},
	{Kind: op.Slice, Rule: sliceRule, Sinks: true},
	{Kind: op.SpaceToDepth, Rule: spaceToDepthRule},
	{Kind: op.Split, Rule: splitRule, Operands: []Operand{{Slot: 1, None: isSize}}},
	{Kind: op.SplitTraining, Rule: splitRule},
	{Kind: op.Squeeze, Rule: squeezeRule, Quantized: true},
	{Kind: op.Tile, Rule: tileRule,
		Operands: []Operand{{Slot: 1, None: isSize}, {Slot: 2, None: "it is the number of an axis"}}},
	{Kind: op.Transpose, Rule: transposeRule, Quantized: true},
	{Kind: op.Trilu, Rule: triluRule},
	{Kind: op.Unsqueeze, Rule: unsqueezeRule, Quantized: true},
}
