package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// integerType returns the number of an integer type among INT_ of kernels/integers.h; ok is false
// for others.
func integerType(t graph.DType) (n uint32, ok bool) {
	at := slices.Index([]graph.DType{graph.Int8, graph.Uint8, graph.Int16, graph.Uint16, graph.Int32}, t)
	return uint32(max(at, 0)), at >= 0
}

// quantizeKernel is QuantizeLinear or DequantizeLinear.
type quantizeKernel struct {
	*launch
	version            int
	axis, block        int // attributes
	floats             uint32
	integers           uint32
	inner, long, parts int // elements behind the axis, on it, and blocks on it
	one                bool
}

// quantization makes the kernels of QuantizeLinear and DequantizeLinear.
func quantization(name string, back bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		floats, integers := p.DType(0), p.Out[0]
		if back {
			floats, integers = integers, floats
		}
		k := &quantizeKernel{version: p.Version, axis: int(p.Node.Int("axis", 1)), floats: statType(floats)}
		var ok bool
		if k.integers, ok = integerType(integers); !ok || !isFloat(p.DType(1)) {
			return nil, noTypes(p)
		}
		if floats == graph.Int32 && !back {
			k.floats = 3 // STAT_I32 of kernels/quantize.cu
		} else if !isFloat(floats) {
			return nil, noTypes(p)
		}
		if p.Version >= 21 {
			k.block = int(p.Node.Int("block_size", 0))
		}
		var err error
		k.launch, err = d.launch("quantize", name)
		return k, err
	}
}

// place maps elements to scales.
func (k *quantizeKernel) place(c *executor.Ctx) error {
	x, s := c.In(0).Shape, c.In(1)
	if z := c.In(2); z != nil && z.Len() != s.Len() {
		return c.Errorf("the zero point is %v, the scale %v", z, s)
	}
	k.inner, k.long, k.parts = 1, 1, 0
	if k.one = s.Len() == 1 && k.block == 0; k.one {
		return nil
	}
	axis := k.axis
	if axis < 0 {
		axis += len(x)
	}
	if k.version < 13 || axis < 0 || axis >= len(x) {
		return c.Errorf("the scale is %v, attribute axis %d and the data's shape %v", s, k.axis, x)
	}
	k.inner, k.long = elements(x[axis+1:]), x[axis]
	if k.block > 0 {
		k.parts = (k.long + k.block - 1) / k.block
		fits := s.Rank() == len(x)
		for i := 0; fits && i < len(x); i++ {
			fits = s.Shape[i] == x[i] || i == axis
		}
		if !fits || s.Shape[axis] != k.parts {
			return c.Errorf("the scale is %v: block_size %d on axis %d of shape %v wants another shape",
				s, k.block, axis, x)
		}
	} else if s.Rank() != 1 || s.Len() != k.long {
		return c.Errorf("the scale is %v, wanted %d numbers for axis %d of shape %v", s, k.long, axis, x)
	}
	return nil
}

// Run computes the output.
func (k *quantizeKernel) Run(c *executor.Ctx) error {
	if err := k.place(c); err != nil {
		return err
	}
	x := c.In(0)
	y := c.Out(0, x.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	return k.quantize(x, c.In(1), dataOf(c.In(2)), y)
}

// quantize launches the kernel.
func (k *quantizeKernel) quantize(x, scale *executor.Tensor, zero []byte, y *executor.Tensor) error {
	k.begin().In(x.Data).In(scale.Data).In(zero).Out(y.Data).Int(y.Len()).Int(k.parts).
		Divider(max(k.inner, 1)).Divider(max(k.long, 1)).Divider(max(k.block, 1)).Uint32(flag(k.one)).
		Uint32(k.floats).Uint32(statType(scale.DType)).Uint32(k.integers)
	return k.line(y.Len(), 4)
}
