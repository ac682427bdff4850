package cpu

import "memopt/graph/op"

// moveRows: operators that move data, and their gradients.
var moveRows = []Row{
	{Kind: op.Concat, New: newConcat},
	{Kind: op.ConcatTraining, New: newConcatTraining},
	{Kind: op.DepthToSpace, New: newDepthToSpace},
	{Kind: op.DynamicSlice, New: newDynamicSlice},
	{Kind: op.Expand, New: newExpand},
	{Kind: op.Slice, New: newSlice},
	{Kind: op.SliceGrad, New: newSliceGrad},
	{Kind: op.SpaceToDepth, New: newSpaceToDepth},
	{Kind: op.Split, New: newSplit},
	{Kind: op.SplitTraining, New: newSplitTraining},
	{Kind: op.Tile, New: newTile},
	{Kind: op.Transpose, New: newTranspose},
}
