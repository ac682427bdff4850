package cpu

import (
	"memopt/executor/operand"
	"memopt/graph/op"
)

// moveRows: operators that move data, and their gradients.
var moveRows = []Row{
	{Kind: op.ATen, New: newATen},
	{Kind: op.CenterCropPad, New: newCenterCropPad, Packed: oneAByte},
	{Kind: op.Compress, New: newCompress, Packed: oneAByte},
	{Kind: op.Concat, New: newConcat, Packed: oneAByte},
	{Kind: op.ConcatTraining, New: newConcatTraining, Packed: oneAByte},
	{Kind: op.Constant, New: newConstant, Packed: inBits},
	{Kind: op.ConstantOfShape, New: newConstantOfShape, Packed: inBits},
	{Kind: op.DepthToSpace, New: newMoved(operand.NewDepthToSpace), Packed: oneAByte},
	{Kind: op.DynamicSlice, New: newMoved(operand.NewSlicing), Packed: oneAByte},
	{Kind: op.Expand, New: newMoved(operand.NewExpansion), Packed: oneAByte},
	{Kind: op.EyeLike, New: newEyeLike},
	{Kind: op.FlattenAndUnpad, New: newFlattenAndUnpad},
	{Kind: op.Gather, New: newGather, Packed: oneAByte},
	{Kind: op.GatherElements, New: newGatherElements, Packed: oneAByte},
	{Kind: op.GatherBlockQuantized, New: widened(newGatherBlockQuantized), Packed: inBits},
	{Kind: op.GatherElementsGrad, New: newGatherElementsGrad},
	{Kind: op.GatherGrad, New: newGatherGrad},
	{Kind: op.GatherND, New: newGatherND, Packed: oneAByte},
	{Kind: op.GatherNDGrad, New: newGatherNDGrad},
	{Kind: op.OneHot, New: newOneHot},
	{Kind: op.Pad, New: newPad, Packed: oneAByte},
	{Kind: op.PadAndUnflatten, New: newPadAndUnflatten},
	{Kind: op.PythonOp, Why: "it calls Python"},
	{Kind: op.PythonOpGrad, Why: "it calls Python"},
	{Kind: op.Range, New: newRange},
	{Kind: op.ReverseSequence, New: newReverseSequence, Packed: oneAByte},
	{Kind: op.Scatter, New: newScatterElements},
	{Kind: op.ScatterElements, New: newScatterElements},
	{Kind: op.ScatterND, New: newScatterND},
	{Kind: op.Shape, New: newShape, Packed: inBits},
	{Kind: op.ShrunkenGather, New: newShrunkenGather, Packed: oneAByte},
	{Kind: op.Size, New: newSize, Packed: inBits},
	{Kind: op.Slice, New: newMoved(operand.NewSlicing), Packed: oneAByte},
	{Kind: op.SliceGrad, New: newSliceGrad},
	{Kind: op.SpaceToDepth, New: newMoved(operand.NewSpaceToDepth), Packed: oneAByte},
	{Kind: op.Split, New: newMoved(operand.NewSplitting), Packed: oneAByte},
	{Kind: op.SplitTraining, New: newSplitTraining, Packed: oneAByte},
	{Kind: op.TensorScatter, New: newTensorScatter},
	{Kind: op.Tile, New: newMoved(operand.NewTiling), Packed: oneAByte},
	{Kind: op.Transpose, New: newMoved(operand.NewPermutation), Packed: oneAByte},
	{Kind: op.Trilu, New: newTrilu, Packed: oneAByte},
}
