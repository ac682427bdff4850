package cuda

import "memopt/executor"

// groupNormKernel is GroupNormalization, or InstanceNormalization, whose groups have one channel.
type groupNormKernel struct {
	*launch
	groups   int64 // 0 means as many as channels
	perGroup bool  // scale and bias have an element per group
	epsilon  float32
}

// newGroupNorm makes GroupNormalization.
func newGroupNorm(d *Device, p *executor.Prep) (executor.Kernel, error) {
	return groupNorm(d, p, p.Node.Int("num_groups", 0), p.Version < 21)
}

// newInstanceNorm makes InstanceNormalization.
func newInstanceNorm(d *Device, p *executor.Prep) (executor.Kernel, error) {
	return groupNorm(d, p, 0, false)
}

func groupNorm(d *Device, p *executor.Prep, groups int64, perGroup bool) (executor.Kernel, error) {
	if err := normOperands(p, 1, len(p.Out)); err != nil {
		return nil, err
	}
	t := suffix(p.DType(0))
	l, err := d.launch("groupnorm_"+t, "groupnorm_"+t)
	return &groupNormKernel{launch: l, groups: groups, perGroup: perGroup, epsilon: p.Node.Float("epsilon", 1e-5)}, err
}

// Run normalises.
func (k *groupNormKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 is %v, wanted rank 2 or more", x)
	}
	channels := x.Shape[1]
	groups := channels
	if k.groups > 0 {
		if int64(channels)%k.groups != 0 {
			return c.Errorf("input 0 has %d channels, which num_groups = %d does not divide", channels, k.groups)
		}
		groups = int(k.groups)
	}
	want := channels
	if k.perGroup {
		want = groups
	}
	if err := channelVector(c, 1, "scale", want); err != nil {
		return err
	}
	if err := channelVector(c, 2, "bias", want); err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	width, d := channels/groups, elements(x.Shape[2:])
	a := k.begin()
	for i := range 3 {
		a.In(c.In(i).Data)
	}
	a.Out(y.Data).Int(x.Shape[0] * groups).Int(width * d).Int(groups).Int(width).Int(d).
		Divider(min(d, 1<<31-1)).Float32(k.epsilon).Uint32(flag(k.perGroup)).Uint32(typeOf(c.In(1))).
		Uint32(typeOf(c.In(2))).Uint32(wide(y.DType, d))
	return k.teams(x.Shape[0]*groups, width*d)
}
