package cpu

import (
	"memopt/executor/operand"
	"memopt/graph/op"
)

// moveRows: operators that move data, and their gradients.
var moveRows = []Row{
	{Kind: op.ATen, New: newATen},
	{Kind: op.CenterCropPad, New: newCenterCropPad},
	{Kind: op.Compress, New: newCompress},
	{Kind: op.Concat, New: newConcat},
	{Kind: op.ConcatTraining, New: newConcatTraining},
	{Kind: op.Constant, New: newConstant},
	{Kind: op.ConstantOfShape, New: newConstantOfShape},
	{Kind: op.DepthToSpace, New: newMoved(operand.NewDepthToSpace)},
	{Kind: op.DynamicSlice, New: newMoved(operand.NewSlicing)},
	{Kind: op.Expand, New: newMoved(operand.NewExpansion)},
	{Kind: op.EyeLike, New: newEyeLike},
	{Kind: op.FlattenAndUnpad, New: newFlattenAndUnpad},
	{Kind: op.Gather, New: newGather},
	{Kind: op.GatherElements, New: newGatherElements},
	{Kind: op.GatherBlockQuantized, New: widened(newGatherBlockQuantized)},
	{Kind: op.GatherElementsGrad, New: newGatherElementsGrad},
	{Kind: op.GatherGrad, New: newGatherGrad},
	{Kind: op.GatherND, New: newGatherND},
	{Kind: op.GatherNDGrad, New: newGatherNDGrad},
	{Kind: op.OneHot, New: newOneHot},
	{Kind: op.Pad, New: newPad},
	{Kind: op.PadAndUnflatten, New: newPadAndUnflatten},
	{Kind: op.PythonOp, Why: "it calls Python"},
	{Kind: op.PythonOpGrad, Why: "it calls Python"},
	{Kind: op.Range, New: newRange},
	{Kind: op.ReverseSequence, New: newReverseSequence},
	{Kind: op.Scatter, New: newScatterElements},
	{Kind: op.ScatterElements, New: newScatterElements},
	{Kind: op.ScatterND, New: newScatterND},
	{Kind: op.Shape, New: newShape},
	{Kind: op.ShrunkenGather, New: newShrunkenGather},
	{Kind: op.Size, New: newSize},
	{Kind: op.Slice, New: newMoved(operand.NewSlicing)},
	{Kind: op.SliceGrad, New: newSliceGrad},
	{Kind: op.SpaceToDepth, New: newMoved(operand.NewSpaceToDepth)},
	{Kind: op.Split, New: newMoved(operand.NewSplitting)},
	{Kind: op.SplitTraining, New: newSplitTraining},
	{Kind: op.TensorScatter, New: newTensorScatter},
	{Kind: op.Tile, New: newMoved(operand.NewTiling)},
	{Kind: op.Transpose, New: newMoved(operand.NewPermutation)},
	{Kind: op.Trilu, New: newTrilu},
}
