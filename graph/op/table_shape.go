package op

// Versions that changed operators which admit every element type: most changes only add types.
var (
	flattenVersions = versions(1, 9, 11, 13, 21, 23, 24, 25)
	squeezeVersions = versions(1, 11, 13, 21, 23, 24, 25)
)

var shapeRows = []Info{
	random(Bernoulli, "Bernoulli", versions(15, 22), exactly(1), randomLikeRule, factors(elementwise)),
	moves(CenterCropPad, "CenterCropPad", versions(18), exactly(2), centerCropPadRule),
	moves(Compress, "Compress", versions(9, 11), exactly(2), compressRule),
	moves(Concat, "Concat", versions(1, 4, 11, 13), Arity{1, -1}, concatRule, joins(concatJoins),
		factors(joinFactors(1))),
	moves(Constant, "Constant", versions(1, 9, 11, 12, 13, 19, 21, 23, 24, 25), exactly(0), constantRule,
		role(ConstantRole)),
	moves(ConstantOfShape, "ConstantOfShape", versions(9, 20, 21, 23, 24, 25), exactly(1), constantOfShapeRule,
		recomputable(0, versions(9, 20), 0), factors(filledFactors), shapes(0)),
	moves(DepthToSpace, "DepthToSpace", versions(1, 11, 13), exactly(1), depthToSpaceRule, factors(dimsOf([]int{0}))),
	moves(Expand, "Expand", versions(8, 13), exactly(2), expandRule, recomputable(0, versions(8, 13), 1),
		factors(elementwiseOf(1)), shapes(1)),
	moves(EyeLike, "EyeLike", versions(9, 22), exactly(1), eyeLikeRule),
	view(Flatten, "Flatten", flattenVersions, exactly(1), flattenRule, factors(reshapeFactors)),
	moves(Gather, "Gather", versions(1, 11, 13), exactly(2), gatherRule, recomputable(0, versions(1, 11, 13), 1),
		factors(gatherFactors)),
	moves(GatherElements, "GatherElements", versions(11, 13), exactly(2), gatherElementsRule,
		factors(gatherElementsFactors)),
	moves(GatherND, "GatherND", versions(11, 12, 13), exactly(2), gatherNDRule, factors(gatherNDFactors)),
	identityRow(),
	random(Multinomial, "Multinomial", versions(7, 22), exactly(1), multinomialRule,
		factors(dimsOf([]int{0}))),
	moves(NonZero, "NonZero", versions(9, 13), exactly(1), nonZeroRule, recomputable(0, versions(9, 13))),
	moves(OneHot, "OneHot", versions(9, 11), exactly(3), oneHotRule, factors(oneHotFactors)),
	moves(Pad, "Pad", versions(1, 2, 11, 13, 18, 19, 21, 23, 24, 25), Arity{1, 4}, padRule,
		moved(11, 1, "pads", "value"), factors(padFactors)),
	random(RandomNormal, "RandomNormal", versions(1, 22), exactly(0), randomRule),
	random(RandomNormalLike, "RandomNormalLike", versions(1, 22), exactly(1), randomLikeRule, factors(elementwise)),
	random(RandomUniform, "RandomUniform", versions(1, 22), exactly(0), randomRule),
	random(RandomUniformLike, "RandomUniformLike", versions(1, 22), exactly(1), randomLikeRule, factors(elementwise)),
	moves(Range, "Range", versions(11), exactly(3), rangeRule,
		recomputable(0, versions(11), 0, 1, 2)),
	view(Reshape, "Reshape", versions(1, 5, 13, 14, 19, 21, 23, 24, 25), Arity{1, 2}, reshapeRule, moved(5, 1, "shape"),
		recomputable(0, versions(1, 5, 13, 14, 19)), factors(reshapeFactors), shapes(1)), // the shape is followed
	row(Resize, "Resize", versions(10, 11, 13, 18, 19), Arity{1, 4}, exactly(1), Cheap, resizeRule,
		factors(resizeFactors), shapes(3)),
	moves(ReverseSequence, "ReverseSequence", versions(10), exactly(2), reverseSequenceRule,
		factors(reverseSequenceFactors)),
	moves(ScatterElements, "ScatterElements", versions(11, 13, 16, 18), exactly(3), scatterElementsRule, inPlace(0),
		factors(scatterElementsFactors)),
	moves(ScatterND, "ScatterND", versions(11, 13, 16, 18), exactly(3), scatterNDRule, inPlace(0)),
	// Replaced by ScatterElements.
	moves(Scatter, "Scatter", versions(9, 11), exactly(3), scatterElementsRule, inPlace(0),
		factors(scatterElementsFactors)),
	moves(Shape, "Shape", versions(1, 13, 15, 19, 21, 23, 24, 25), exactly(1), shapeRule, role(ShapeOf)),
	moves(Size, "Size", versions(1, 13, 19, 21, 23, 24, 25), exactly(1), sizeRule, role(ShapeOf)),
	moves(Slice, "Slice", versions(1, 10, 11, 13), Arity{1, 5}, sliceRule, cuts(sliceCuts),
		moved(10, 1, "starts", "ends", "axes"),
		recomputable(0, versions(1)), recomputable(0, versions(10, 11, 13), 1, 2, 3, 4), factors(sliceFactors)),
	moves(SpaceToDepth, "SpaceToDepth", versions(1, 13), exactly(1), spaceToDepthRule, factors(dimsOf([]int{0}))),
	splitRow(),
	view(Squeeze, "Squeeze", squeezeVersions, Arity{1, 2}, squeezeRule, moved(13, 1, "axes"),
		recomputable(0, versions(1, 11)), recomputable(0, versions(13), 1), factors(squeezeFactors)),
	moves(TensorScatter, "TensorScatter", versions(24), Arity{2, 3}, tensorScatterRule, inPlace(0)),
	moves(Tile, "Tile", versions(1, 6, 13), Arity{2, 3}, tileRule,
		recomputable(0, versions(1), 1, 2), recomputable(0, versions(6, 13), 1), factors(tileFactors)),
	topKRow(),
	moves(Transpose, "Transpose", versions(1, 13, 21, 23, 24, 25), exactly(1), transposeRule,
		role(TransposeRole), recomputable(0, versions(1, 13)), factors(transposeFactors)),
	moves(Trilu, "Trilu", versions(14), Arity{1, 2}, triluRule, inPlace(0), recomputable(0, versions(14), 1),
		factors(stacked(2, 1))),
	uniqueRow(),
	view(Unsqueeze, "Unsqueeze", squeezeVersions, Arity{1, 2}, unsqueezeRule, moved(13, 1, "axes"),
		recomputable(0, versions(1, 11)), recomputable(0, versions(13), 1), factors(reshapeFactors)),
	// Replaced by Resize.
	row(Upsample, "Upsample", versions(1, 7, 9, 10), Arity{1, 2}, exactly(1), Cheap, upsampleRule,
		moved(9, 1, "scales"), factors(resizeFactors)),
}

// identityRow: the one row here that also takes sequences and optionals.
func identityRow() Info {
	r := view(Identity, "Identity", versions(1, 13, 14, 16, 19, 21, 23, 24, 25), exactly(1), identityRule,
		factors(elementwise))
	r.Infer, r.Role = identityRule, IdentityRole
	return r
}

func splitRow() Info {
	r := moves(Split, "Split", versions(1, 2, 11, 13, 18), Arity{1, 2}, splitRule, cuts(splitCuts),
		moved(13, 1, "split"),
		recomputable(0, versions(2, 11)), recomputable(0, versions(1, 13, 18), 1), factors(splitFactors))
	r.Outputs = Arity{1, -1}
	return r
}

// topKRow: a partial sort, which takes several passes over the input.
func topKRow() Info {
	r := row(TopK, "TopK", versions(1, 10, 11, 24), Arity{1, 2}, Arity{1, 2}, Expensive, topKRule, flops(inputElements),
		moved(10, 1, "k"), factors(alongAxis(-1, 1)))
	return r
}

// uniqueRow: a sort.
func uniqueRow() Info {
	return row(Unique, "Unique", versions(11), exactly(1), Arity{1, 4}, Expensive, uniqueRule, flops(inputElements))
}
