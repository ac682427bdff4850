package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// lossGradKernel is ONNX Runtime's gradient of SoftmaxCrossEntropyLoss by the scores, of dY,
// log_prob, labels, weights and a bias that is added to it:
//
//	dX = g*(e^log_prob - [class is the label]) + bias
//	g  = dY*weight[label], divided by the sum of the weights of all labels for the mean
//
// If a label is ignored, dX is the bias, or 0.
//
// In Deeploy's form, of log_prob and labels, dY is 1.
type lossGradKernel[T normElem] struct {
	lossOperands[T]
	dyAt, biasAt     int // -1 if the input is missing
	dy, lp, bias, dx normTensor[T]
	tiles            int
}

// newLossGrad makes the gradient; the ignored index is input ignoreAt, or an attribute if that is
// -1.
func newLossGrad(ignoreAt, biasAt int) func(*executor.Prep) (executor.Kernel, error) {
	return lossGradMaker(0, ignoreAt, biasAt)
}

// newUnitLossGrad makes Deeploy's gradient, of log_prob and labels.
func newUnitLossGrad(p *executor.Prep) (executor.Kernel, error) { return lossGradMaker(-1, -1, -1)(p) }

func lossGradMaker(dyAt, ignoreAt, biasAt int) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		switch normAccumulates(p.DType(dyAt + 1)) {
		case graph.Float32:
			return makeLossGrad[float32](p, dyAt, ignoreAt, biasAt)
		case graph.Float64:
			return makeLossGrad[float64](p, dyAt, ignoreAt, biasAt)
		}
		return nil, unsupportedTypes(p)
	}
}

func makeLossGrad[T normElem](p *executor.Prep, dyAt, ignoreAt, biasAt int) (executor.Kernel, error) {
	o, err := newLossOperands[T](p, dyAt+1, ignoreAt)
	return &lossGradKernel[T]{lossOperands: o, dyAt: dyAt, biasAt: biasAt}, err
}

// Workspace counts labels and weights.
func (k *lossGradKernel[T]) Workspace(in, _ [][]int) int { return k.space(in) }

// Run computes the gradient.
func (k *lossGradKernel[T]) Run(c *executor.Ctx) error {
	if err := k.read(c); err != nil {
		return err
	}
	want := 1
	if k.reduction == "none" {
		want = len(k.labels)
	}
	if k.dyAt >= 0 && c.In(0).Len() != want {
		return c.Errorf("input 0, the loss's gradient, is %v, wanted %d elements for reduction %q",
			c.In(0), want, k.reduction)
	}
	k.dy, k.bias = normTensor[T]{}, normTensor[T]{}
	if k.dyAt >= 0 {
		k.dy = normOpen[T](c.In(k.dyAt))
	}
	if k.biasAt >= 0 && c.In(k.biasAt) != nil {
		if err := normSameShape(c, 1, k.biasAt); err != nil {
			return err
		}
		k.bias = normOpen[T](c.In(k.biasAt))
	}
	lp := c.In(k.dyAt + 1)
	k.lp, k.dx = normOpen[T](lp), normOpen[T](c.Out(0, lp.Shape...))
	if k.dx.given() {
		k.tiles = (k.d + softmaxTile - 1) / softmaxTile
		c.Parallel(k.n*k.tiles, normGrain(3*k.c*min(k.d, softmaxTile)), k)
	}
	return nil
}

// factor returns g for label number i.
func (k *lossGradKernel[T]) factor(i int) T {
	w, dy := k.weightOf(k.labels[i]), T(1)
	switch {
	case k.dyAt < 0:
	case k.reduction == "none":
		dy = k.dy.one(i)
	default:
		dy = k.dy.one(0)
	}
	if k.reduction == "mean" {
		return T(float64(dy) * float64(w) / k.sumWeights)
	}
	return dy * w
}

// Range does rows, or tiles of columns, lo..hi-1.
func (k *lossGradKernel[T]) Range(lo, hi int) {
	var block, block2 [normBlock]T
	for ; lo < hi; lo++ {
		if k.d == 1 {
			k.row(block[:], block2[:], lo)
			continue
		}
		column := lo % k.tiles * softmaxTile
		k.columns(block[:], block2[:], lo/k.tiles, column, min(k.d-column, softmaxTile))
	}
}

// row does scores that lie side by side.
func (k *lossGradKernel[T]) row(buf, buf2 []T, i int) {
	l, g := int(k.labels[i]), k.factor(i)
	for lo := 0; lo < k.c; lo += normBlock {
		at, n := i*k.c+lo, min(k.c-lo, normBlock)
		dx := k.dx.place(buf, at, n)
		if l < 0 {
			clear(dx)
		} else {
			normExp(dx, k.lp.load(buf, at, n))
			normMulScalar(dx, dx, g)
			if lo <= l && l < lo+n {
				dx[l-lo] -= g
			}
		}
		if k.bias.given() {
			normAdd(dx, dx, k.bias.load(buf2, at, n))
		}
		k.dx.store(at, dx)
	}
}

// columns does n neighbouring columns of sample i; the labels' elements come last.
func (k *lossGradKernel[T]) columns(buf, buf2 []T, i, column, n int) {
	var gs [softmaxTile]T
	g := gs[:n]
	labels := k.labels[i*k.d+column:][:n]
	ignored := false
	for j, l := range labels {
		g[j] = k.factor(i*k.d + column + j)
		ignored = ignored || l < 0
	}
	base := i*k.c*k.d + column
	for class := range k.c {
		at := base + class*k.d
		dx := k.dx.place(buf, at, n)
		normExp(dx, k.lp.load(buf, at, n))
		normMul(dx, dx, g)
		for j := 0; ignored && j < n; j++ {
			if labels[j] < 0 {
				dx[j] = 0
			}
		}
		if k.bias.given() {
			normAdd(dx, dx, k.bias.load(buf2, at, n))
		}
		k.dx.store(at, dx)
	}
	for j, l := range labels {
		if l < 0 {
			continue
		}
		at := base + int(l)*k.d + j
		e := buf[:1]
		normExp(e, k.lp.load(buf, at, 1))
		v := T(e[0]*g[j]) - g[j]
		if k.bias.given() {
			v += k.bias.one(at)
		}
		k.dx.put(at, v)
	}
}
