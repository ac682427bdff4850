package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/graph/op"
)

// dropSlots has the input slots of a relative of Dropout; 0 means that it has no such input.
type dropSlots struct {
	bias, residual, ratio, training int
	packed                          bool // the mask has a bit per element
}

// dropout drops elements at random, and scales the others.
type dropout struct {
	*launch
	dropSlots
	draws operand.Draws
}

// newDropout makes the kernels of Dropout and its relatives.
func newDropout(slots dropSlots) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		s := slots
		if p.Node.Kind == op.Dropout && p.Version < 12 {
			s.ratio, s.training = 0, 0 // the ratio is an attribute, of no use without training mode
		}
		t := floatSuffix(p.DType(0))
		if t == "" || !s.packed && p.Wants(1) && p.Out[1] != graph.Bool {
			return nil, noTypes(p)
		}
		draws, err := operand.DrawsOf(p)
		if err != nil {
			return nil, err
		}
		l, err := d.launch("random", "dropout_"+t)
		return &dropout{l, s, draws}, err
	}
}

// ratioOf reads the ratio, an input in host memory or 0.5.
func ratioOf(c *executor.Ctx, slot int) (float64, error) {
	if slot == 0 || c.In(slot) == nil {
		return 0.5, nil
	}
	x := c.In(slot)
	if x.Len() != 1 || floatSuffix(x.DType) == "" {
		return 0, c.Errorf("input %d, the ratio, is %v, wanted one float", slot, x)
	}
	r := scalarAt(x).real
	if !(r >= 0 && r < 1) {
		return 0, c.Errorf("the ratio is %v, wanted a number in [0, 1)", r)
	}
	return r, nil
}

// Run checks the operands and draws.
func (k *dropout) Run(c *executor.Ctx) error {
	x := c.In(0)
	ratio, err := k.drawn(c)
	if err != nil {
		return err
	}
	bias, residual, period, err := k.sides(c, x)
	if err != nil {
		return err
	}
	var y, mask, bits []byte
	if t := c.Out(0, x.Shape...); t != nil {
		y = t.Data
	}
	if k.packed && c.Wants(1) {
		bits = c.Out(1, (x.Len()+31)/32).Data
	} else if c.Wants(1) {
		mask = c.Out(1, x.Shape...).Data
	}
	return k.draw(c, dropped{x.Data, bias, residual, y, mask, bits, x.Len(), period}, ratio)
}

// dropped are the operands of a draw; all but x may be nil. period is the length of the bias.
type dropped struct {
	x, bias, residual, y, mask, bits []byte
	n, period                        int
}

// draw drops elements with a probability.
func (k *dropout) draw(c *executor.Ctx, o dropped, ratio float64) error {
	a := k.begin().In(o.x).In(o.bias).In(o.residual).Out(o.y).Out(o.mask).Out(o.bits).Int(o.n).Int(o.period)
	packStream(a, k.draws, c)
	a.Uint32(uint32(ratio * (1 << 32))).Uint32(flag(ratio > 0)).Float64(1 / (1 - ratio))
	return k.line(o.n, 4)
}

// drawn returns the ratio, 0 without training mode.
func (k *dropout) drawn(c *executor.Ctx) (float64, error) {
	t := c.In(k.training)
	if k.training == 0 || t == nil {
		return 0, nil
	}
	if t.DType != graph.Bool || t.Len() != 1 {
		return 0, c.Errorf("input %d, the training mode, is %v, wanted one bool", k.training, t)
	}
	if t.Data[0] == 0 {
		return 0, nil
	}
	return ratioOf(c, k.ratio)
}

// sides returns the bias with its length and the residual.
func (k *dropout) sides(c *executor.Ctx, x *executor.Tensor) (bias, residual []byte, period int, err error) {
	if s := k.residual; s > 0 && c.In(s) != nil {
		if !operand.Joined(c.In(s).Shape, x.Shape, nil) {
			return nil, nil, 0, c.Errorf("the residual is %v, wanted the data's shape %v", c.In(s), x.Shape)
		}
		residual = c.In(s).Data
	}
	if k.bias == 0 {
		return nil, residual, 1, nil
	}
	b := c.In(k.bias)
	tail := b.Shape
	for len(tail) > 0 && tail[0] == 1 {
		tail = tail[1:]
	}
	if len(tail) > x.Rank() || !operand.Joined(x.Shape[x.Rank()-len(tail):], tail, nil) {
		return nil, nil, 0, c.Errorf("the bias is %v, wanted the last dims of the data's shape %v", b, x.Shape)
	}
	return b.Data, residual, max(b.Len(), 1), nil
}
