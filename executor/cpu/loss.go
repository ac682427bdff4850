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
// of which it gives each, the sum, or the sum divided by that of the weights; the latter is NaN where all
// labels are ignored. Losses are added up in blocks of 1024 in their type, the blocks in order in float64.
// https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html
type lossKernel[T normElem] struct {
	lossOperands[T]
	plain   bool // NegativeLogLikelihoodLoss
	x       []T
	logProb []T // nil: nobody wants it
	losses  []T // [N, d]
	tiles   int
}

// newLoss makes a loss whose ignored index is an attribute, or the input ignoreAt if that is not -1.
func newLoss(plain bool, ignoreAt int) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		switch p.DType(0) {
		case graph.Float32:
			return makeLoss[float32](p, plain, ignoreAt)
		case graph.Float64:
			return makeLoss[float64](p, plain, ignoreAt)
		}
		return nil, unsupportedTypes(p)
	})
}

func makeLoss[T normElem](p *executor.Prep, plain bool, ignoreAt int) (executor.Kernel, error) {
	o, err := newLossOperands[T](p, 0, ignoreAt)
	return &lossKernel[T]{lossOperands: o, plain: plain}, err
}

// Workspace counts labels and losses.
func (k *lossKernel[T]) Workspace(in, _ [][]int) int {
	if len(in) < 2 {
		return 0
	}
	return k.labelSpace(in) + executor.RoundUp(8*product(in[1]))
}

// Run computes the loss.
func (k *lossKernel[T]) Run(c *executor.Ctx) error {
	if err := k.read(c); err != nil {
		return err
	}
	x, labels := c.In(0), c.In(1)
	k.x, k.logProb = normData[T](c, 0), nil
	if !k.plain {
		k.logProb = normOut[T](c, 1, x.Shape...)
	}
	each := k.reduction == "none"
	if each {
		k.losses = normOut[T](c, 0, labels.Shape...)
	}
	if !each || k.losses == nil {
		k.losses = executor.ScratchOf[T](c, labels.Len())
	}
	k.tiles = (k.d + softmaxTile - 1) / softmaxTile
	if k.c > 0 {
		c.Parallel(k.n*k.tiles, normGrain(3*k.c*min(k.d, softmaxTile)), k)
	} else {
		clear(k.losses) // all labels are ignored
	}
	if each {
		return nil
	}
	if y := normOut[T](c, 0); y != nil {
		y[0] = k.reduced()
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
	for ; lo < hi; lo++ {
		if k.d == 1 {
			k.row(lo)
			continue
		}
		column := lo % k.tiles * softmaxTile
		k.columns(lo/k.tiles, column, min(k.d-column, softmaxTile))
	}
}

// row does scores that lie side by side.
func (k *lossKernel[T]) row(i int) {
	x, l := k.x[i*k.c:(i+1)*k.c], k.labels[i]
	var p T
	switch {
	case k.logProb != nil:
		y := k.logProb[i*k.c : (i+1)*k.c]
		logSoftmaxRow(y, x)
		p = y[max(l, 0)]
	case l < 0:
	case k.plain:
		p = x[l]
	default:
		m, s := logSumExpRow(x)
		p = x[l] - m - s
	}
	k.losses[i] = k.lossOf(l, p)
}

// lossOf returns the loss of a label with log-probability p.
func (k *lossKernel[T]) lossOf(l int32, p T) T {
	if l < 0 {
		return 0
	}
	return -p * k.weightOf(l)
}

// columns does n neighbouring columns of sample i.
func (k *lossKernel[T]) columns(i, column, n int) {
	var ms, ss, bs [softmaxTile]T
	m, s := ms[:n], ss[:n]
	x := k.x[i*k.c*k.d+column:]
	if !k.plain {
		columnSums(nil, x, k.c, k.d, m, s, bs[:n])
		if k.logProb != nil {
			logSoftmaxColumns(k.logProb[i*k.c*k.d+column:], x, k.c, k.d, m, s)
		} else {
			normLog(s, s)
		}
	}
	at := i*k.d + column
	for j, l := range k.labels[at : at+n] {
		var p T
		if l >= 0 {
			p = x[int(l)*k.d+j] - m[j] - s[j]
		}
		k.losses[at+j] = k.lossOf(l, p)
	}
}
