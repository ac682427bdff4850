package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
)

// taper is HannWindow, HammingWindow or BlackmanWindow; the size is read on the host.
type taper struct {
	*launch
	a, b, c  float32
	periodic bool
}

// tapering makes the kernels of windows by the weights of their cosines.
func tapering(a, b, c float32) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if len(p.Out) == 0 || !isFloat(p.Out[0]) {
			return nil, p.Unsupported("no CUDA kernel for output types %v", p.Out)
		}
		l, err := d.launch("taper", "taper_any")
		return &taper{l, a, b, c, p.Node.Int("periodic", 1) != 0}, err
	}
}

// Run computes the window.
func (k *taper) Run(c *executor.Ctx) error {
	size, err := operand.Scalar(c, 0, "the size")
	if err != nil {
		return err
	}
	if size < 0 {
		return c.Errorf("input 0, the size, is %d, wanted no negative number", size)
	}
	y := c.Out(0, int(size))
	if y == nil {
		return nil
	}
	period := int(size)
	if !k.periodic {
		period--
	}
	a := k.begin()
	a.Out(y.Data)
	a.Int(y.Len())
	a.Int(period)
	a.Uint32(typeOf(y))
	a.Float32(k.a)
	a.Float32(k.b)
	a.Float32(k.c)
	return k.line(y.Len(), 1)
}
