package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// lossKernel is a loss of scores [N, C, d…] and labels [N, d…]:
//
//	NegativeLogLikelihoodLoss  -weight[label] * x[label]
//	SoftmaxCrossEntropyLoss    the same of log_prob, the LogSoftmax of x along axis 1
//
// The result is each loss, their sum, or the sum divided by that of the weights; the latter is NaN
// if all labels are ignored. Losses are added up in blocks of 1024 in their type, the blocks in
// order in float64. https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
type lossKernel[T normElem] struct {
	lossOperands[T]
	plain   bool // NegativeLogLikelihoodLoss
	only    bool // Deeploy's form, whose only output is log_prob
	x       normTensor[T]
	logProb normTensor[T] // empty if not wanted
	losses  []T           // [N, d]
	tiles   int
}

// newLoss makes a loss whose ignored index is an attribute, or the input ignoreAt if that is not
// -1.
func newLoss(plain bool, ignoreAt int) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		switch normAccumulates(p.DType(0)) {
		case graph.Float32:
			return makeLoss[float32](p, plain, ignoreAt)
		case graph.Float64:
			return makeLoss[float64](p, plain, ignoreAt)
		}
		return nil, unsupportedTypes(p)
	}
}

// newLogProbLoss makes Deeploy's form of the loss, which gives the log-probabilities alone.
func newLogProbLoss(p *executor.Prep) (executor.Kernel, error) {
	k, err := newLoss(false, -1)(p)
	switch k := k.(type) {
	case *lossKernel[float32]:
		k.only = true
	case *lossKernel[float64]:
		k.only = true
	}
	return k, err
}

func makeLoss[T normElem](p *executor.Prep, plain bool, ignoreAt int) (executor.Kernel, error) {
	o, err := newLossOperands[T](p, 0, ignoreAt)
	return &lossKernel[T]{lossOperands: o, plain: plain}, err
}

// Workspace counts labels, weights and losses.
func (k *lossKernel[T]) Workspace(in, _ [][]int) int {
	if len(in) < 2 {
		return 0
	}
	return k.space(in) + executor.RoundUp(8*product(in[1]))
}

// Run computes the loss.
func (k *lossKernel[T]) Run(c *executor.Ctx) error {
	if err := k.read(c); err != nil {
		return err
	}
	x, labels := c.In(0), c.In(1)
	k.x, k.logProb = normOpen[T](x), normTensor[T]{}
	switch {
	case k.only:
		k.logProb = normOpen[T](c.Out(0, x.Shape...))
	case !k.plain:
		k.logProb = normOpen[T](c.Out(1, x.Shape...))
	}
	k.losses = executor.ScratchOf[T](c, labels.Len())
	k.tiles = (k.d + softmaxTile - 1) / softmaxTile
	if k.c > 0 {
		c.Parallel(k.n*k.tiles, normGrain(3*k.c*min(k.d, softmaxTile)), k)
	} else {
		clear(k.losses) // all labels are ignored
	}
	if k.only {
		return nil
	}
	if k.reduction == "none" {
		y := normOpen[T](c.Out(0, labels.Shape...))
		copy(y.data, k.losses)
		if y.given() {
			y.store(0, k.losses)
		}
	} else if y := c.Out(0); y != nil {
		out := normOpen[T](y)
		out.put(0, k.reduced())
	}
	return nil
}

// reduced returns the sum or mean of the losses.
func (k *lossKernel[T]) reduced() T {
	total := 0.0
	for lo := 0; lo < len(k.losses); lo += 1024 {
		total += float64(normSum(k.losses[lo:min(lo+1024, len(k.losses))]))
	}
	if k.reduction == "mean" {
		total /= k.sumWeights
	}
	return T(total)
}

// Range does rows, or tiles of columns, lo..hi-1.
func (k *lossKernel[T]) Range(lo, hi int) {
	var block [normBlock]T
	for ; lo < hi; lo++ {
		if k.d == 1 {
			k.row(block[:], lo)
			continue
		}
		column := lo % k.tiles * softmaxTile
		k.columns(block[:], lo/k.tiles, column, min(k.d-column, softmaxTile))
	}
}

// row does scores that lie side by side.
func (k *lossKernel[T]) row(buf []T, i int) {
	base, l := i*k.c, int(k.labels[i])
	var m, s T
	if !k.plain && (l >= 0 || k.logProb.given()) {
		m, s = logSumExp(buf, &k.x, base, k.c)
	}
	k.losses[i] = 0
	if l >= 0 {
		k.losses[i] = -k.weightOf(k.labels[i]) * (k.x.one(base+l) - m - s)
	}
	if k.logProb.given() {
		logSoftmaxRow(buf, &k.logProb, &k.x, base, k.c, m, s)
	}
}

// columns does n neighbouring columns of sample i.
func (k *lossKernel[T]) columns(buf []T, i, column, n int) {
	var ms, ss [softmaxTile]T
	m, s := ms[:n], ss[:n]
	base := i*k.c*k.d + column
	if !k.plain {
		columnSums(buf, nil, &k.x, base, k.c, k.d, m, s)
		normLog(s, s)
	}
	at := i*k.d + column
	for j, l := range k.labels[at : at+n] {
		k.losses[at+j] = 0
		if l >= 0 {
			k.losses[at+j] = -k.weightOf(l) * (k.x.one(base+int(l)*k.d+j) - m[j] - s[j])
		}
	}
	if k.logProb.given() {
		logSoftmaxColumns(buf, &k.logProb, &k.x, base, k.c, k.d, m, s)
	}
}
