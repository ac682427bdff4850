package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// lossKernel is SoftmaxCrossEntropyLoss, or NegativeLogLikelihoodLoss where plain holds.
type lossKernel struct {
	lossLabels
	rows, columns, sum *launch
	plain              bool
}

// loss makes a loss whose ignored index is an attribute, or the input ignoreAt if that is not -1.
func loss(plain bool, ignoreAt int) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		l, err := newLossLabels(d, p, 0, ignoreAt)
		if err != nil {
			return nil, err
		}
		if !isFloat(p.DType(0)) || p.Wants(1) && p.Out[1] != p.DType(0) {
			return nil, noTypes(p)
		}
		k := &lossKernel{lossLabels: l, plain: plain}
		err = d.launches("loss_"+suffix(p.DType(0)),
			[]named{{&k.rows, "lossrows"}, {&k.columns, "losscolumns"}, {&k.sum, "losssum"}})
		return k, err
	}
}

// Workspace counts labels and losses.
func (k *lossKernel) Workspace(in, _ [][]int) int {
	if k.reduction == "none" {
		return k.space(in)
	}
	return 2 * k.space(in)
}

// Run computes the loss.
func (k *lossKernel) Run(c *executor.Ctx) error {
	if err := k.read(c); err != nil {
		return err
	}
	x, n := c.In(0), k.count
	var y, logProb *executor.Tensor
	each := k.reduction == "none"
	if each {
		y = c.Out(0, c.In(1).Shape...)
	} else {
		y = c.Out(0)
	}
	if !k.plain {
		logProb = c.Out(1, x.Shape...)
	}
	labels, err := k.checked(c)
	if err != nil {
		return err
	}
	losses, lossType := dataOf(y), typeOf(y)
	if !each {
		losses, lossType = c.Scratch(4*n), 0
	}
	if err := k.losses(c, labels, losses, lossType, logProb); err != nil || each || y == nil {
		return err
	}
	packLossSum(k.sum.begin(), losses, labels, c.In(2), y, nil, n, k.reduction == "mean")
	return k.sum.run(driver.Line(1, 1024))
}

// losses computes the loss of each label, and the logarithms of the probabilities.
func (k *lossKernel) losses(c *executor.Ctx, labels, losses []byte, lossType uint32, logProb *executor.Tensor) error {
	x := c.In(0)
	byRow := k.places == 1 && !k.plain
	l := k.columns
	if byRow {
		l = k.rows
	}
	l.begin().In(x.Data).In(labels).In(dataOf(c.In(2))).Out(losses).Out(dataOf(logProb)).Int(k.n).Int(k.c).
		Int(k.places).Uint32(flag(k.plain)).Uint32(typeOf(c.In(2))).Uint32(lossType).
		Uint32(wide(x.DType, k.c))
	if byRow {
		return l.teams(k.n, k.c)
	}
	return l.line(k.count, 1)
}

// packLossSum packs losssum_args.
func packLossSum(a *driver.Args, losses, labels []byte, weight, y *executor.Tensor, weights []byte, n int, mean bool) {
	a.In(losses).In(labels).In(dataOf(weight)).Out(dataOf(y)).Out(weights).Int(n).Uint32(flag(mean)).
		Uint32(typeOf(weight)).Uint32(typeOf(y))
	a.Uint32(0) // the struct's end is padded: it has 64-bit members
}
