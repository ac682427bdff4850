package cuda

import (
	"slices"

	"memopt/executor"
)

// fusedKernel computes y = f(x+bias), or y = f(dy, x+bias), element by element.
type fusedKernel struct {
	*launch
	dy, x, bias int // inputs, or -1
	alpha       float32
}

// biasActivation makes kernels of fused.h: of input 0 plus the bias in input 1, which may be left
// out.
func biasActivation(name string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		return newFused(d, p, name, &fusedKernel{dy: -1, x: 0, bias: 1})
	}
}

// activationGrad makes kernels of fused.h: of the gradient dY and the operand or the result in
// input 1, with the bias in an input that may be left out. bias is -1 for operators without one.
func activationGrad(name string, bias int, attrs ...attr) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		k := &fusedKernel{dy: 0, x: 1, bias: bias}
		for _, a := range attrs {
			k.alpha = p.Node.Float(a.name, a.value)
		}
		return newFused(d, p, name, k)
	}
}

// newBiasAdd makes the kernel of BiasAdd: x + bias + skip.
func newBiasAdd(d *Device, p *executor.Prep) (executor.Kernel, error) {
	return newFused(d, p, "biasadd", &fusedKernel{dy: 2, x: 0, bias: 1})
}

// newFused launches a kernel for floats, all of one type.
func newFused(d *Device, p *executor.Prep, name string, k *fusedKernel) (executor.Kernel, error) {
	t := p.DType(0)
	if !isFloat(t) || sameTypes(p) != nil {
		return nil, noTypes(p)
	}
	var err error
	k.launch, err = d.launch("fused_"+suffix(t), name+"_"+suffix(t))
	return k, err
}

// Run computes the output.
func (k *fusedKernel) Run(c *executor.Ctx) error {
	x, width := c.In(k.x), 1
	if x == nil {
		return c.Errorf("input %d is left out; it is required", k.x)
	}
	var dyData, biasData []byte
	if k.dy >= 0 {
		dy := c.In(k.dy)
		if dy == nil {
			return c.Errorf("input %d is left out; it is required", k.dy)
		}
		if !slices.Equal(x.Shape, dy.Shape) {
			return c.Errorf("input %d has shape %v, wanted that of input %d, %v", k.x, x.Shape, k.dy, dy.Shape)
		}
		dyData = dy.Data
	}
	if k.bias >= 0 {
		if bias := c.In(k.bias); bias != nil {
			if bias.Rank() != 1 || x.Rank() == 0 || bias.Shape[0] != x.Shape[x.Rank()-1] {
				return c.Errorf(
					"input %d, the bias, has shape %v, wanted a vector as long as the last dim of input %d, %v",
					k.bias, bias.Shape, k.x, x.Shape)
			}
			biasData, width = bias.Data, max(bias.Shape[0], 1)
		}
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	k.begin().In(dyData).In(x.Data).In(biasData).Out(y.Data).Int(x.Len()).Int(width).Divider(width).
		Float32(k.alpha)
	return k.line(x.Len(), 4)
}
