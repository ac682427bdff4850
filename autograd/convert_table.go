package autograd

import (
	"memopt/graph"
	"memopt/graph/op"
)

// change rewrites a node for the operator set that changed its operator. It returns a description
// of the rewrite, or "" if the node stays as it is.
type change func(x *conversion) (what string, err error)

// kindSince names an operator and the set that changed it.
type kindSince struct {
	kind    graph.Kind
	version int64
}

// changes has every change of ONNX's operators after operator set 7 that gives a node another form
// or another meaning. Changes that only admit more types, attributes or inputs are left out.
var changes = map[kindSince]change{
	{op.BatchNormalization, 9}: spatialGone,
	{op.Scan, 9}:               scanWithoutBatch,
	{op.Upsample, 9}:           scalesToInput,

	{op.Dropout, 10}:  maskToBool,
	{op.Slice, 10}:    sliceToInputs,
	{op.TopK, 10}:     countToInput,
	{op.Upsample, 10}: upsampleToResize,

	{op.Clip, 11}:    limitsToInputs,
	{op.Pad, 11}:     padsToInputs,
	{op.Resize, 11}:  resizeModes,
	{op.Scatter, 11}: scatterRenamed,

	{op.Dropout, 12}: ratioToInput,

	{op.Hardmax, 13}:    softmaxOneAxis,
	{op.LogSoftmax, 13}: softmaxOneAxis,
	{op.ReduceSum, 13}:  axesToInput,
	{op.Resize, 13}:     resizeModeGone,
	{op.Softmax, 13}:    softmaxOneAxis,
	{op.Split, 13}:      sizesToInput,
	{op.Squeeze, 13}:    axesToInput,
	{op.Unsqueeze, 13}:  axesToInput,

	{op.BatchNormalization, 14}: trainingMode,

	{op.RoiAlign, 16}: roiCoordinates,

	{op.ReduceL1, 18}:        axesToInput,
	{op.ReduceL2, 18}:        axesToInput,
	{op.ReduceLogSum, 18}:    axesToInput,
	{op.ReduceLogSumExp, 18}: axesToInput,
	{op.ReduceMax, 18}:       axesToInput,
	{op.ReduceMean, 18}:      axesToInput,
	{op.ReduceMin, 18}:       axesToInput,
	{op.ReduceProd, 18}:      axesToInput,
	{op.ReduceSumSquare, 18}: axesToInput,
	{op.Split, 18}:           countedParts,

	{op.DFT, 20}:        fourierAxis,
	{op.GridSample, 20}: sampleModes,

	{op.GroupNormalization, 21}: scalePerChannel,
}
