package cuda

import (
	"memopt/executor/operand"
	"memopt/graph/op"
)

// dataLength is why operators whose results have a length that depends on data run on the host.
const dataLength = "how long its result is depends on the data, which the host must know"

// hostShapes is why shapes are computed on the host.
const hostShapes = "shapes are known on the host"

// moveRows: operators that move data, and their gradients. Inputs that say how much is moved where
// are read on the host.
var moveRows = []Row{
	{Kind: op.ATen, New: newATen},
	{Kind: op.Compress, Why: dataLength},
	{Kind: op.Concat, New: newConcat(1)},
	{Kind: op.ConcatTraining, New: newConcat(0)},
	{Kind: op.Constant, Why: "its value is in host memory, from where it is copied once"},
	{Kind: op.ConstantOfShape, New: newConstantOfShape, HostInputs: []int{0}},
	{Kind: op.DepthToSpace, New: newMoved(operand.NewDepthToSpace)},
	{Kind: op.DynamicSlice, New: newMoved(operand.NewSlicing), HostInputs: []int{1, 2, 3, 4}},
	{Kind: op.Expand, New: newMoved(operand.NewExpansion), HostInputs: []int{1}},
	{Kind: op.EyeLike, New: newEyeLike},
	{Kind: op.FlattenAndUnpad, New: newFlattenAndUnpad},
	{Kind: op.Gather, New: newGather(false)},
	{Kind: op.GatherElements, New: newGatherElements},
	{Kind: op.GatherElementsGrad, New: newGatherElementsGrad, HostInputs: []int{1}},
	{Kind: op.GatherGrad, New: newGatherGrad, HostInputs: []int{0}},
	{Kind: op.GatherND, New: newGatherND},
	{Kind: op.GatherNDGrad, New: newGatherNDGrad, HostInputs: []int{0}},
	{Kind: op.NonZero, Why: dataLength},
	{Kind: op.OneHot, New: newOneHot, HostInputs: []int{1}},
	{Kind: op.Pad, New: newPad, HostInputs: []int{1, 2, 3}},
	{Kind: op.PadAndUnflatten, New: newPadAndUnflatten, HostInputs: []int{2}},
	{Kind: op.Range, New: newRange, HostInputs: []int{0, 1, 2}},
	{Kind: op.ReverseSequence, Why: notTrained},
	{Kind: op.Scatter, New: newScatterElements},
	{Kind: op.ScatterElements, New: newScatterElements},
	{Kind: op.ScatterND, New: newScatterND},
	{Kind: op.Shape, Why: hostShapes},
	{Kind: op.ShrunkenGather, New: newGather(true)},
	{Kind: op.Size, Why: hostShapes},
	{Kind: op.Slice, New: newMoved(operand.NewSlicing), HostInputs: []int{1, 2, 3, 4}},
	{Kind: op.SliceGrad, New: newSliceGrad, HostInputs: []int{1, 2, 3, 4, 5}},
	{Kind: op.SpaceToDepth, New: newMoved(operand.NewSpaceToDepth)},
	{Kind: op.Split, New: newMoved(operand.NewSplitting), HostInputs: []int{1}},
	{Kind: op.SplitTraining, New: newMoved(operand.NewSplitting), HostInputs: []int{1}},
	{Kind: op.TensorScatter, Why: notTrained},
	{Kind: op.Tile, New: newMoved(operand.NewTiling), HostInputs: []int{1}},
	{Kind: op.Transpose, New: newMoved(operand.NewPermutation)},
	{Kind: op.Trilu, New: newTrilu, HostInputs: []int{1}},
}
