package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
)

// intConv is ConvInteger, or QLinearConv: the filters of a group times its columns, which are never
// in memory.
type intConv struct {
	intProduct
	geometry *cpu.ConvGeometry
	shape    []int
}

// newIntConv makes the kernel of ConvInteger, or of QLinearConv.
func newIntConv(quantizes bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		w := 1
		if quantizes {
			if w = 3; !isByte(p.Out[0]) {
				return nil, noTypes(p)
			}
		}
		if !isByte(p.DType(0)) || !isByte(p.DType(w)) {
			return nil, noTypes(p)
		}
		for i := range 8 {
			if quantizes && !p.Has(i) {
				return nil, p.Errorf("input %d is left out; it is required", i)
			}
		}
		if len(p.Shapes) > 0 && len(p.Shapes[0]) > 5 {
			return nil, p.Unsupported("the CUDA kernels have up to three spatial axes; the output has shape %v",
				p.Shapes[0])
		}
		attributes := *p
		attributes.In = nil
		g, err := cpu.NewConvGeometry(&attributes)
		if err != nil {
			return nil, p.Unsupported("no CUDA kernel for its window: %v", err)
		}
		l, err := d.launch("intproduct", "int_conv")
		return &intConv{intProduct: intProduct{launch: l, quantizes: quantizes}, geometry: g}, err
	}
}

// operands takes the inputs: X, then W as B's and A's numbers.
func (k *intConv) operands(c *executor.Ctx) error {
	k.b, k.a = intOperand{data: c.In(0), zero: c.In(2)}, intOperand{data: c.In(1), zero: c.In(3)}
	if !k.quantizes {
		return nil
	}
	k.b, k.a = intOperand{c.In(0), c.In(2), c.In(1)}, intOperand{c.In(3), c.In(5), c.In(4)}
	k.y = intOperand{zero: c.In(7), scale: c.In(6)}
	for _, i := range [...]int{1, 2, 6, 7} {
		if c.In(i).Len() != 1 {
			return c.Errorf("input %d is %v, wanted one number", i, c.In(i))
		}
	}
	return nil
}

// Run checks the shapes and computes.
func (k *intConv) Run(c *executor.Ctx) error {
	if err := k.operands(c); err != nil {
		return err
	}
	s, err := k.geometry.Shape(k.b.data.Shape, k.a.data.Shape)
	if err != nil {
		return err
	}
	w, err := newWindow(s.Window)
	if err != nil {
		return err
	}
	if z := k.b.zero; z != nil && z.Len() != 1 {
		return c.Errorf("the zero point of the data (x_zero_point) has shape %v, wanted a scalar", z.Shape)
	}
	for _, t := range [...]*executor.Tensor{k.a.zero, k.a.scale} {
		if t != nil && t.Len() != 1 && (t.Rank() != 1 || t.Len() != s.M) {
			return c.Errorf("the weights' zero point (w_zero_point) or scale is %v, wanted 1 or %d numbers", t, s.M)
		}
	}
	if k.bias = nil; k.quantizes && c.In(8) != nil {
		if k.bias = c.In(8).Data; c.In(8).Len() != s.M {
			return c.Errorf("input 8, the bias, is %v, wanted %d numbers", c.In(8), s.M)
		}
	}
	k.shape = append(k.shape[:0], s.N, s.M)
	k.shape = append(k.shape, w.Out[len(w.Out)-w.Rank:]...)
	if k.y.data = c.Out(0, k.shape...); k.y.data == nil || k.y.data.Len() == 0 {
		return nil
	}
	channels := s.C / s.Group
	k.m, k.n, k.k, k.count, k.period = s.M/s.Group, w.outPlane, channels*w.taps, s.N*s.Group, s.Group
	k.stepA, k.stepB, k.rows, k.columns = k.m*k.k, channels*w.inPlane, k.m, 0
	a := k.begin()
	k.pack(a)
	a.Uint32(0) // int_product's size is a multiple of 8
	a.Divider(max(w.taps, 1))
	w.pack(a)
	return k.tiles()
}
