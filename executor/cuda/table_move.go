package cuda

import "memopt/graph/op"

// moveRows: operators that move data, and their gradients. Inputs that say how much goes where are read on the host.
var moveRows = []Row{
	{Kind: op.Concat, New: newConcat(1)},
	{Kind: op.ConcatTraining, New: newConcat(0)},
	{Kind: op.DepthToSpace, New: newBlocks(false)},
	{Kind: op.DynamicSlice, New: newSlice(0), HostInputs: []int{1, 2, 3, 4}},
	{Kind: op.Expand, New: newExpand, HostInputs: []int{1}},
	{Kind: op.Slice, New: newSlice(10), HostInputs: []int{1, 2, 3, 4}},
	{Kind: op.SliceGrad, New: newSliceGrad, HostInputs: []int{1, 2, 3, 4, 5}},
	{Kind: op.SpaceToDepth, New: newBlocks(true)},
	{Kind: op.Split, New: newSplit, HostInputs: []int{1}},
	{Kind: op.SplitTraining, New: newSplit, HostInputs: []int{1}},
	{Kind: op.Tile, New: newTile, HostInputs: []int{1}},
	{Kind: op.Transpose, New: newTranspose},
}
