package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/operand"
	"memopt/graph"
)

// biasSoftmax is ONNX Runtime's BiasSoftmax: softmax(data + bias) over all dims from the axis on.
// The bias is stretched to the data as in other operators.
type biasSoftmax struct {
	*launch
	softmaxAxis
	lead, row boxCopy // dims before the axis and from it on, with the bias's strides
}

// newBiasSoftmax makes the kernel of BiasSoftmax.
func newBiasSoftmax(d *Device, p *executor.Prep) (executor.Kernel, error) { return biasSoftmaxOf(d, p) }

func biasSoftmaxOf(d *Device, p *executor.Prep) (*biasSoftmax, error) {
	t := p.DType(0)
	if !isFloat(t) || p.DType(1) != t {
		return nil, noTypes(p)
	}
	l, err := d.launch("biassoftmax_"+suffix(t), "biassoftmax_"+suffix(t))
	return &biasSoftmax{launch: l, softmaxAxis: newSoftmaxAxis(p, true)}, err
}

// Run adds and computes the softmax.
func (k *biasSoftmax) Run(c *executor.Ctx) error {
	x, bias := c.In(0), c.In(1)
	if err := k.split(c, x.Shape); err != nil {
		return err
	}
	if !k.stretch(x.Shape, bias.Shape) {
		return c.Errorf("input 1, the bias, has shape %v, which cannot be stretched to %v", bias.Shape, x.Shape)
	}
	if y := c.Out(0, x.Shape...); y != nil {
		return k.compute(c, x, bias, y.Data)
	}
	return nil
}

// stretch finds the strides of a bias in x's dims, and reports whether it has that shape or is
// stretched to it.
func (k *biasSoftmax) stretch(x, bias []int) bool {
	k.lead.Begin()
	k.row.Begin()
	missing, step := len(x)-len(bias), elements(bias)
	for i, n := range x {
		from := 0
		if i >= missing && bias[i-missing] != 1 {
			if bias[i-missing] != n {
				return false
			}
			step /= max(n, 1)
			from = step
		}
		if i < k.at {
			k.lead.Add(n, 0, from)
		} else {
			k.row.Add(n, 0, from)
		}
	}
	return missing >= 0
}

// compute computes the softmax of x + bias.
func (k *biasSoftmax) compute(c *executor.Ctx, x, bias *executor.Tensor, y []byte) error {
	if len(y) == 0 {
		return nil
	}
	axes := k.row.axes
	for _, list := range [2][]boxAxis{k.lead.axes, axes} {
		if err := fits(c, list); err != nil {
			return err
		}
	}
	a := k.begin().In(x.Data).In(bias.Data).Out(y).Int(k.outer).Int(k.n)
	packSteps(a, k.lead.axes)
	packSteps(a, axes)
	plain := k.n == 1 || len(axes) == 1 && axes[0].from == 1
	a.Uint32(flag(plain)).Uint32(wide(x.DType, k.n))
	return k.teams(k.outer, k.n)
}

// packSteps packs axes, listed the outermost first, and their strides in the source.
func packSteps(a *driver.Args, axes []boxAxis) {
	n := len(axes)
	packAxes(a, n, func(i int) int { return axes[n-1-i].n })
	packInts(a, n, func(i int) int { return axes[n-1-i].from })
}

// biasSoftmaxDropout is ONNX Runtime's BiasSoftmaxDropout: s = softmax(x + bias), y = dropout(s);
// outputs y, the mask and s.
type biasSoftmaxDropout struct {
	*biasSoftmax
	drops *dropout
}

// newBiasSoftmaxDropout makes the kernel of BiasSoftmaxDropout.
func newBiasSoftmaxDropout(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if p.Wants(1) && p.Out[1] != graph.Bool {
		return nil, noTypes(p)
	}
	s, err := biasSoftmaxOf(d, p)
	if err != nil {
		return nil, err
	}
	s.given = true
	draws, err := operand.DrawsOf(p)
	if err != nil {
		return nil, err
	}
	l, err := d.launch("random", "dropout_"+suffix(p.DType(0)))
	return &biasSoftmaxDropout{s, &dropout{launch: l, draws: draws}}, err
}

// Run computes the softmax, in y's memory if s is not wanted, and drops elements.
func (k *biasSoftmaxDropout) Run(c *executor.Ctx) error {
	x, bias := c.In(0), c.In(1)
	ratio, err := ratioOf(c, 2)
	if err != nil {
		return err
	}
	if err := k.split(c, x.Shape); err != nil {
		return err
	}
	missing := x.Rank() - bias.Rank()
	if missing < 0 || missing > k.at || !slices.Equal(bias.Shape[k.at-missing:], x.Shape[k.at:]) {
		return c.Errorf("the bias is %v, wanted the dims of %v from axis %d on, and at most %d before",
			bias, x, k.at, k.at)
	}
	if !k.stretch(x.Shape, bias.Shape) {
		return c.Errorf("the bias is %v and does not broadcast to %v", bias, x)
	}
	y, mask := dataOf(c.Out(0, x.Shape...)), dataOf(c.Out(1, x.Shape...))
	s := y
	if t := c.Out(2, x.Shape...); t != nil {
		s = t.Data
	}
	if err := k.compute(c, x, bias, s); err != nil {
		return err
	}
	return k.drops.draw(c, dropped{x: s, y: y, mask: mask, n: x.Len(), period: 1}, ratio)
}
