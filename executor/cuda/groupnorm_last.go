package cuda

import "memopt/executor"

// lastGroupNorm is ONNX Runtime's GroupNorm of x [N, H, W, C], followed, with activation = 1, by
// y*sigmoid(y).
type lastGroupNorm struct {
	*launch
	groups  int64
	epsilon float32
	swish   bool
}

// newLastGroupNorm makes the kernel of GroupNorm.
func newLastGroupNorm(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if err := normOperands(p, 1, len(p.Out)); err != nil {
		return nil, err
	}
	t := suffix(p.DType(0))
	l, err := d.launch("groupnorm_"+t, "groupnormlast_"+t)
	return &lastGroupNorm{launch: l, groups: p.Node.Int("groups", 1), epsilon: p.Node.Float("epsilon", 1e-5),
		swish: p.Node.Int("activation", 0) == 1}, err
}

// Run normalises.
func (k *lastGroupNorm) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() != 4 {
		return c.Errorf("input 0 is %v, wanted rank 4", x)
	}
	channels, groups := x.Shape[3], int(k.groups)
	if channels%groups != 0 {
		return c.Errorf("input 0 has %d channels, which groups = %d does not divide", channels, groups)
	}
	for i := 1; i < 3; i++ {
		if err := channelVector(c, i, "scale or bias", channels); err != nil {
			return err
		}
	}
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	width := channels / groups
	return k.normGroups(c, y, groupSizes{x.Shape[0], groups, width, x.Shape[1] * x.Shape[2], width}, k.epsilon, k.swish)
}
