package cpu

import "memopt/graph/op"

// convRows: convolutions, pools and vision.
var convRows = []Row{
	{Kind: op.Conv, New: widened(newConv)},
	{Kind: op.FusedConv, New: widened(newFusedConv)},
}
