package cuda

import "memopt/graph/op"

// hostNormal is why the host draws normal numbers.
const hostNormal = "the logarithm, sine and cosine of float64 numbers are the host's, so that every device draws " +
	"the same bits"

// randomRows: random draws, and dropout with its gradients. They draw the same bits as the host's
// kernels.
var randomRows = []Row{
	{Kind: op.Bernoulli, New: newUniform},
	{Kind: op.BiasDropout, New: newDropout(dropSlots{bias: 1, residual: 2, ratio: 3, training: 4}),
		HostInputs: []int{3, 4}},
	{Kind: op.BitmaskBiasDropout, New: newDropout(dropSlots{bias: 1, residual: 2, ratio: 3, training: 4, packed: true}),
		HostInputs: []int{3, 4}},
	{Kind: op.BitmaskDropout, New: newDropout(dropSlots{ratio: 1, training: 2, packed: true}), HostInputs: []int{1, 2}},
	{Kind: op.BitmaskDropoutGrad, New: newDropoutGrad(true), HostInputs: []int{2}},
	{Kind: op.Dropout, New: newDropout(dropSlots{ratio: 1, training: 2}), HostInputs: []int{1, 2}},
	{Kind: op.DropoutGrad, New: newDropoutGrad(false), HostInputs: []int{2}},
	{Kind: op.Multinomial,
		Why: "its sums of float64 probabilities are the host's, so that every device draws the same samples"},
	{Kind: op.RandomNormal, Why: hostNormal},
	{Kind: op.RandomNormalLike, Why: hostNormal},
	{Kind: op.RandomUniform, New: newUniform},
	{Kind: op.RandomUniformLike, New: newUniform},
}
