package cuda

import "memopt/graph/op"

// convRows: convolutions, pools and vision.
var convRows = []Row{
	{Kind: op.Conv, New: newConv},
	{Kind: op.ConvGrad, New: newConvGrad},
	{Kind: op.ConvTranspose, New: newConvTranspose},
	{Kind: op.FusedConv, New: newConv},
}
