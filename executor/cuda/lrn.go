package cuda

import "memopt/executor"

// lrnKernel is LRN.
type lrnKernel struct {
	*launch
	size              int
	scale, beta, bias float32
}

// newLRN makes the kernel of LRN.
func newLRN(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if !isFloat(p.DType(0)) {
		return nil, noTypes(p)
	}
	size := int(min(p.Node.Int("size", 1), 1<<30))
	k := &lrnKernel{size: size, beta: p.Node.Float("beta", 0.75), bias: p.Node.Float("bias", 1)}
	k.scale = float32(float64(p.Node.Float("alpha", 1e-4)) / float64(size))
	var err error
	k.launch, err = d.launch("lrn", "lrn_"+suffix(p.DType(0)))
	return k, err
}

// Run normalises.
func (k *lrnKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 is %v, wanted rank 2 or more", x)
	}
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	channels, d := x.Shape[1], elements(x.Shape[2:])
	k.begin().In(x.Data).Out(y.Data).Int(x.Len()).Int(channels).Int(d).Int((k.size - 1) / 2).Int(k.size / 2).
		Divider(min(d, 1<<31-1)).Divider(min(channels, 1<<31-1)).Float32(k.scale).Float32(k.beta).
		Float32(k.bias)
	return k.line(x.Len(), 1)
}
