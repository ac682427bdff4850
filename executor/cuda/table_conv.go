package cuda

import "memopt/graph/op"

// convRows: convolutions, pools and vision.
var convRows = []Row{
	{Kind: op.AveragePool, New: pool("averagepool", 1)},
	{Kind: op.Conv, New: newConv},
	{Kind: op.ConvGrad, New: newConvGrad},
	{Kind: op.ConvTranspose, New: newConvTranspose},
	{Kind: op.FusedConv, New: newConv},
	{Kind: op.GlobalAveragePool, New: global("globalaverage")},
	{Kind: op.GlobalLpPool, New: global("globallp")},
	{Kind: op.GlobalMaxPool, New: global("globalmax")},
	{Kind: op.LpPool, New: pool("lppool", 1)},
	{Kind: op.MaxPool, New: pool("maxpool", 2)},
	{Kind: op.MaxPoolGrad, New: newMaxPoolGrad},
	{Kind: op.Resize, New: newResize, HostInputs: []int{1, 2, 3}},
	{Kind: op.ResizeGrad, New: newResize, HostInputs: []int{2, 3}},
	{Kind: op.Upsample, New: newResize, HostInputs: []int{1}},
}
