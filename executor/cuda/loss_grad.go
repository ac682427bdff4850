package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// lossGradKernel is ONNX Runtime's gradient of SoftmaxCrossEntropyLoss by the scores, of dY, the
// logarithms of the probabilities, labels, weights and a bias that is added.
type lossGradKernel struct {
	lossLabels
	rows, columns, sum *launch
	biasAt             int
}

// lossGrad makes the gradient; the ignored index is input ignoreAt, or an attribute if that is -1.
func lossGrad(ignoreAt, biasAt int) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		l, err := newLossLabels(d, p, 1, ignoreAt, biasAt)
		if err != nil {
			return nil, err
		}
		if !isFloat(p.DType(1)) || p.Wants(0) && p.Out[0] != p.DType(1) {
			return nil, noTypes(p)
		}
		k := &lossGradKernel{lossLabels: l, biasAt: biasAt}
		err = d.launches("loss_"+suffix(p.DType(1)),
			[]named{{&k.rows, "lossgradrows"}, {&k.columns, "lossgradcolumns"}, {&k.sum, "losssum"}})
		return k, err
	}
}

// Workspace counts labels and the sum of weights.
func (k *lossGradKernel) Workspace(in, _ [][]int) int {
	if k.reduction == "mean" {
		return k.space(in) + executor.RoundUp(8)
	}
	return k.space(in)
}

// Run computes the gradient.
func (k *lossGradKernel) Run(c *executor.Ctx) error {
	if err := k.read(c); err != nil {
		return err
	}
	dy, logProb, bias, each := c.In(0), c.In(1), c.In(k.biasAt), k.reduction == "none"
	want := 1
	if each {
		want = k.count
	}
	if dy.Len() != want {
		return c.Errorf("input 0, the loss's gradient, is %v, wanted %d elements for reduction %q",
			dy, want, k.reduction)
	}
	if bias != nil {
		if err := sameShapes(c, 1, k.biasAt); err != nil {
			return err
		}
	}
	dx := c.Out(0, logProb.Shape...)
	if dx == nil || dx.Len() == 0 {
		return nil
	}
	labels, err := k.checked(c)
	if err != nil {
		return err
	}
	var weights []byte
	if k.reduction == "mean" {
		weights = c.Scratch(8)
		packLossSum(k.sum.begin(), nil, labels, c.In(3), nil, weights, k.count, true)
		if err := k.sum.run(driver.Line(1, 1024)); err != nil {
			return err
		}
	}
	l := k.columns
	if k.places == 1 {
		l = k.rows
	}
	l.begin().In(dy.Data).In(logProb.Data).In(labels).In(dataOf(c.In(3))).In(dataOf(bias)).In(weights).
		Out(dx.Data).Int(k.n).Int(k.c).Int(k.places).Uint32(flag(each)).Uint32(typeOf(dy)).
		Uint32(typeOf(c.In(3))).Uint32(wide(dx.DType, k.c))
	if k.places == 1 {
		return l.teams(k.n, k.c)
	}
	return l.line(dx.Len(), 1)
}
