package cuda

import (
	"memopt/executor"
	"memopt/graph"
)

// maker makes the kernel of a node.
type maker func(d *Device, p *executor.Prep) (executor.Kernel, error)

// attr is a float attribute with its default.
type attr struct {
	name  string
	value float32
}

// unaryKernel computes each element of output 0 from the one of input 0 at the same place.
type unaryKernel struct {
	*launch
	alpha, beta float32
}

// unary makes kernels of unary.h: name_TYPE with up to two attributes, for floats.
func unary(name string, attrs ...attr) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if !isFloat(p.DType(0)) {
			return nil, noTypes(p)
		}
		t := suffix(p.DType(0))
		return newUnary(d, p, "unary_"+t, name+"_"+t, attrs...)
	}
}

func newUnary(d *Device, p *executor.Prep, module, name string, attrs ...attr) (executor.Kernel, error) {
	l, err := d.launch(module, name)
	if err != nil {
		return nil, err
	}
	k := &unaryKernel{launch: l}
	for i, to := range []*float32{&k.alpha, &k.beta} {
		if i < len(attrs) {
			*to = p.Node.Float(attrs[i].name, attrs[i].value)
		}
	}
	return k, nil
}

// Run computes the output.
func (k *unaryKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x == nil {
		return c.Errorf("input 0 is left out; it is required")
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	return k.unary(x.Data, y.Data, x.Len(), k.alpha, k.beta)
}

// unary runs a kernel of unary_args on n elements; y may be x.
func (l *launch) unary(x, y []byte, n int, alpha, beta float32) error {
	l.begin().In(x).Out(y).Int(n).Float32(alpha).Float32(beta)
	return l.line(n, 4)
}

// newGelu makes the kernel of Gelu.
func newGelu(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if p.Node.Str("approximate", "none") == "tanh" {
		return unary("gelutanh")(d, p)
	}
	return unary("gelu")(d, p)
}

// newNot makes the kernel of Not.
func newNot(d *Device, p *executor.Prep) (executor.Kernel, error) {
	return newUnary(d, p, "logic", "not_u8")
}

// newCast makes the kernels of Cast and CastLike: a copy if the types are the same.
func newCast(d *Device, p *executor.Prep) (executor.Kernel, error) {
	from := p.DType(0)
	if len(p.Out) == 0 {
		return nil, noTypes(p)
	}
	to := p.Out[0]
	if from == to {
		return newCopy(d, p)
	}
	a, b := suffix(from), suffix(to)
	if to == graph.Bool {
		b = "truth"
	}
	if a == "" || b == "" || to == graph.Uint8 {
		return nil, p.Unsupported("no CUDA kernel converts %v to %v", from, to)
	}
	return newUnary(d, p, "cast", "cast_"+a+"_"+b)
}

// copyKernel copies input 0, or fills output 0 with zeros.
type copyKernel struct {
	d    *Device
	zero bool
}

// newCopy makes the kernel of operators that move a tensor.
func newCopy(d *Device, _ *executor.Prep) (executor.Kernel, error) { return &copyKernel{d: d}, nil }

// newZero makes the kernel of ZeroGradient.
func newZero(d *Device, _ *executor.Prep) (executor.Kernel, error) {
	return &copyKernel{d: d, zero: true}, nil
}

// Run copies or fills.
func (k *copyKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x == nil {
		return c.Errorf("input 0 is left out; it is required")
	}
	y := c.Out(0, x.Shape...)
	switch {
	case y == nil || len(y.Data) == 0:
		return nil
	case k.zero:
		return k.d.Memory().Fill(y.Data, 0)
	case &y.Data[0] == &x.Data[0]: // in place
		return nil
	}
	return k.d.driver.Copy(k.d.stream, y.Data, x.Data)
}

// classify makes kernels of classify.cu, of one float.
func classify(name string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if t := p.DType(0); !isFloat(t) && t != graph.Float64 {
			return nil, noTypes(p)
		}
		return newUnary(d, p, "classify", name+"_"+suffix(p.DType(0)))
	}
}

// newIsInf makes the kernel of IsInf.
func newIsInf(d *Device, p *executor.Prep) (executor.Kernel, error) {
	k, err := classify("isinf")(d, p)
	if err == nil {
		u := k.(*unaryKernel)
		u.alpha, u.beta = float32(p.Node.Int("detect_positive", 1)), float32(p.Node.Int("detect_negative", 1))
	}
	return k, err
}
