package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// dropoutGrad is mask ? dy/(1-ratio) : 0. The training mode is not looked at, as on the host.
type dropoutGrad struct {
	*launch
	packed bool
}

// newDropoutGrad makes the kernels of DropoutGrad and BitmaskDropoutGrad.
func newDropoutGrad(packed bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		t := floatSuffix(p.DType(0))
		if t == "" {
			return nil, noTypes(p)
		}
		l, err := d.launch("random", "dropgrad_"+t)
		return &dropoutGrad{l, packed}, err
	}
}

// Run computes the output.
func (k *dropoutGrad) Run(c *executor.Ctx) error {
	dy, mask := c.In(0), c.In(1)
	ratio, err := ratioOf(c, 2)
	if err != nil {
		return err
	}
	var bytes, bits []byte
	if k.packed {
		if mask.Len() != (dy.Len()+31)/32 {
			return c.Errorf("the mask is %v, wanted %d words for %v", mask, (dy.Len()+31)/32, dy)
		}
		bits = mask.Data
	} else {
		if !operand.Joined(mask.Shape, dy.Shape, nil) {
			return c.Errorf("the mask is %v, the gradient %v: wanted the same shape", mask, dy)
		}
		bytes = mask.Data
	}
	dx := c.Out(0, dy.Shape...)
	if dx == nil {
		return nil
	}
	k.begin().In(dy.Data).In(bytes).In(bits).Out(dx.Data).Int(dy.Len()).Float64(1 / (1 - ratio))
	return k.line(dy.Len(), 4)
}
