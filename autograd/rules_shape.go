package autograd

import "memopt/graph/op"

const (
	onlyShape = "it reads only the shape of its input"
	drawn     = "its output is a random draw"
)

// shapeRules: operators that move data.
var shapeRules = []Row{
	{Kind: op.ATen, Rule: atenRule},
	{Kind: op.Bernoulli, None: drawn},
	{Kind: op.CenterCropPad, Rule: centerCropPadRule},
	{Kind: op.Compress, Rule: compressRule},
	{Kind: op.Concat, Rule: concatRule},
	{Kind: op.ConcatTraining, Rule: concatRule},
	{Kind: op.ConstantOfShape, None: "it reads a shape"},
	{Kind: op.DepthToSpace, Rule: depthToSpaceRule},
	{Kind: op.Expand, Rule: expandRule},
	{Kind: op.EyeLike, None: onlyShape},
	{Kind: op.Flatten, Rule: reshapeRule},
	{Kind: op.FlattenAndUnpad, Rule: flattenAndUnpadRule},
	{Kind: op.Gather, Rule: gatherRule},
	{Kind: op.GatherBlockQuantized, None: ofIntegers},
	{Kind: op.GatherElements, Rule: gatherElementsRule},
	{Kind: op.GatherND, Rule: gatherNDRule},
	{Kind: op.Identity, Rule: identityRule, Same: func(*Ctx) bool { return true }, Cut: cutSame},
	{Kind: op.MemcpyFromHost, Rule: identityRule},
	{Kind: op.MemcpyToHost, Rule: identityRule},
	{Kind: op.Multinomial, None: drawn},
	{Kind: op.OneHot, Rule: oneHotRule},
	{Kind: op.Pad, Rule: padRule},
	{Kind: op.PadAndUnflatten, Rule: padAndUnflattenRule},
	{Kind: op.RandomNormal, None: drawn},
	{Kind: op.RandomNormalLike, None: onlyShape},
	{Kind: op.RandomUniform, None: drawn},
	{Kind: op.RandomUniformLike, None: onlyShape},
	{Kind: op.Range, None: "its operands count elements"},
	{Kind: op.Reshape, Rule: reshapeRule},
	{Kind: op.ReverseSequence, Rule: reverseSequenceRule},
	{Kind: op.Scatter, Rule: scatterElementsRule},
	{Kind: op.ScatterElements, Rule: scatterElementsRule},
	{Kind: op.ScatterND, Rule: scatterNDRule},
	{Kind: op.Shape, None: onlyShape},
	{Kind: op.ShrunkenGather, Rule: gatherRule},
	{Kind: op.Size, None: onlyShape},
	{Kind: op.Slice, Rule: sliceRule, Sinks: true},
	{Kind: op.SpaceToDepth, Rule: spaceToDepthRule},
	{Kind: op.Split, Rule: splitRule},
	{Kind: op.SplitTraining, Rule: splitRule},
	{Kind: op.Squeeze, Rule: squeezeRule},
	{Kind: op.TensorScatter, Rule: tensorScatterRule},
	{Kind: op.Tile, Rule: tileRule},
	{Kind: op.Transpose, Rule: transposeRule},
	{Kind: op.Trilu, Rule: triluRule},
	{Kind: op.Unsqueeze, Rule: unsqueezeRule},
}
