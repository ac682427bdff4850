package cuda

import "memopt/executor"

// batchNormGradKernel is ONNX Runtime's BatchNormalizationGrad of dY, X, scale, and the batch's
// mean and inverse deviation.
type batchNormGradKernel struct {
	channelLayout
	sums, channels, apply *launch
}

func newBatchNormGrad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if p.DType(0) != p.DType(1) {
		return nil, noTypes(p)
	}
	if err := normOperands(p, 2, 1); err != nil {
		return nil, err
	}
	k := &batchNormGradKernel{}
	err := d.launches("batchnorm_"+suffix(p.DType(0)),
		[]named{{&k.sums, "batchgradsums"}, {&k.channels, "batchgradchannels"}, {&k.apply, "batchgradapply"}})
	return k, err
}

// Workspace counts sums and factors.
func (k *batchNormGradKernel) Workspace(in, _ [][]int) int {
	if len(in) == 0 || in[0] == nil {
		return 0
	}
	var l channelLayout
	l.measure(in[0], false)
	return l.space(4)
}

// Run computes the gradients.
func (k *batchNormGradKernel) Run(c *executor.Ctx) error {
	dy, x, scale, mean, inv := c.In(0), c.In(1), c.In(2), c.In(3), c.In(4)
	if err := sameShapes(c, 0, 1); err != nil {
		return err
	}
	k.set(x, false)
	for i := 2; i < 5; i++ {
		if err := channelVector(c, i, "channels' operand", k.c); err != nil {
			return err
		}
	}
	dx, dscale, dbias := c.Out(0, x.Shape...), c.Out(1, k.c), c.Out(2, k.c)
	if k.c == 0 {
		return nil
	}
	part, factors := c.Scratch(8*k.c*k.chunks), c.Scratch(4*4*k.c)
	k.packSums(k.sums.begin(), x, dy, mean, part)
	if err := k.sums.rows(k.c*k.chunks, 256, 0); err != nil {
		return err
	}
	a := k.channels.begin().In(part).In(scale.Data).In(mean.Data).In(inv.Data).Out(factors).
		Out(dataOf(dscale)).Out(dataOf(dbias))
	k.pack(a)
	for _, t := range [...]*executor.Tensor{scale, mean, inv, dscale, dbias} {
		a.Uint32(typeOf(t))
	}
	if err := k.channels.folding(k.c, 1); err != nil || dx == nil || dx.Len() == 0 {
		return err
	}
	k.packApply(k.apply.begin(), x, dy, factors, dx)
	return k.apply.line(dx.Len(), k.elementsPer(x))
}

// channelVector makes sure that an input that is given is a vector of n elements.
func channelVector(c *executor.Ctx, i int, what string, n int) error {
	if t := c.In(i); t != nil && (t.Rank() != 1 || t.Shape[0] != n) {
		return c.Errorf("input %d, the %s, is %v, wanted a vector of %d elements", i, what, t, n)
	}
	return nil
}
