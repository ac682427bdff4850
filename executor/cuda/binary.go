package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// broadcastKernel computes each element of output 0 from elements of up to three operands that are
// broadcast to it.
type broadcastKernel struct {
	*launch
	broadcast
	inputs    int
	perThread int
	likeFirst bool // operands are stretched to the first one's shape
}

func newBroadcast(d *Device, module, name string, inputs, perThread int) (*broadcastKernel, error) {
	l, err := d.launch(module, name)
	if err != nil {
		return nil, err
	}
	return &broadcastKernel{launch: l, inputs: inputs, perThread: perThread}, nil
}

// Run computes the output.
func (k *broadcastKernel) Run(c *executor.Ctx) error {
	var in [3]*executor.Tensor
	for i := range k.inputs {
		in[i] = c.In(i)
	}
	if err := k.set(c, in[:k.inputs]...); err != nil {
		return err
	}
	if k.likeFirst && !slices.Equal(k.shape, in[0].Shape) {
		return c.Errorf("input 1 has shape %v, which does not stretch to that of input 0, %v", in[1].Shape, in[0].Shape)
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.pack(k.begin(), y)
	return k.line(k.n, k.perThread)
}

// binaryOf makes kernels of binary.h, of two operands of the same type, one that takes accepts.
func binaryOf(name string, takes func(graph.DType) bool, why string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		t := p.DType(0)
		switch {
		case len(p.In) != 2:
			return nil, p.Unsupported("no CUDA kernel has %d operands", len(p.In))
		case p.DType(1) != t || !takes(t):
			if why != "" && t.IsInteger() {
				return nil, p.Unsupported("%s", why)
			}
			return nil, noTypes(p)
		}
		return newBroadcast(d, "binary_"+suffix(t), name+"_"+suffix(t), 2, 4)
	}
}

// binary is for floats and integers.
func binary(name string) maker {
	return binaryOf(name, func(t graph.DType) bool { return isFloat(t) || t == graph.Int32 || t == graph.Int64 }, "")
}

// floatBinary is for floats; why is the reason for other types' lack of a kernel.
func floatBinary(name, why string) maker { return binaryOf(name, isFloat, why) }

// compare is binary, for bools as well where the operator is Equal.
func compare(name string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if p.DType(0) == graph.Bool && name == "equal" {
			return logic(name)(d, p)
		}
		return binary(name)(d, p)
	}
}

// logic makes kernels of logic.cu, of two bools.
func logic(name string) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if p.DType(0) != graph.Bool || p.DType(1) != graph.Bool {
			return nil, noTypes(p)
		}
		return newBroadcast(d, "logic", name+"_u8", 2, 4)
	}
}

// newPRelu makes the kernel of PRelu.
func newPRelu(d *Device, p *executor.Prep) (executor.Kernel, error) {
	k, err := floatBinary("prelu", "")(d, p)
	if err != nil {
		return nil, err
	}
	k.(*broadcastKernel).likeFirst = true
	return k, nil
}

// newWhere makes the kernel of Where, for elements of any type by their size.
func newWhere(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size := p.DType(1).Bits() / 8
	name := ""
	switch size {
	case 1, 2, 4, 8:
		name = "where_" + string(rune('0'+size))
	default:
		return nil, noTypes(p)
	}
	return newBroadcast(d, "where", name, 3, 1)
}
