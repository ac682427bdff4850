package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// statType is the number of a float type among STAT_ of kernels/stats.h.
func statType(t graph.DType) uint32 {
	switch t {
	case graph.Float16:
		return 1
	case graph.BFloat16:
		return 2
	}
	return 0
}

// normOperands rejects operands whose types the kernels of norms do not take: all are of the type
// of input 0, statistics, inputs from statIn and outputs from statOut on, are any float.
func normOperands(p *executor.Prep, statIn, statOut int) error {
	for _, list := range []struct {
		types []graph.DType
		stats int
	}{{p.In, statIn}, {p.Out, statOut}} {
		for i, t := range list.types {
			if t != graph.Undefined && (!isFloat(t) || i < list.stats && t != p.In[0]) {
				return p.Unsupported("no CUDA kernel for types %v and %v", p.In, p.Out)
			}
		}
	}
	return nil
}

// layerNormKernel is LayerNormalization, or RMSNormalization where simple holds.
type layerNormKernel struct {
	*launch
	stretch *broadcastKernel
	size    int // bytes of an element
	axis    int64
	epsilon float32
	simple  bool
	shape   []int
}

// layerNorm makes either norm.
func layerNorm(simple bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if err := normOperands(p, len(p.In), 1); err != nil {
			return nil, err
		}
		t := suffix(p.DType(0))
		l, err := d.launch("layernorm_"+t, "layernorm_"+t)
		if err != nil {
			return nil, err
		}
		size := p.DType(0).Bits() / 8
		stretch, err := newExpandOf(d, size)
		return &layerNormKernel{launch: l, stretch: stretch, size: size, axis: p.Node.Int("axis", -1),
			epsilon: p.Node.Float("epsilon", 1e-5), simple: simple}, err
	}
}

// isRow reports whether an operand is one row of the elements of a shape from axis on.
func isRow(operand, shape []int, axis int) bool {
	lead := len(shape) - len(operand)
	for i, d := range shape {
		have := 1
		if i >= lead {
			have = operand[i-lead]
		}
		if i < axis && have != 1 || i >= axis && have != d {
			return false
		}
	}
	return lead >= 0
}

// Workspace counts operands that are not rows.
func (k *layerNormKernel) Workspace(in, _ [][]int) int {
	n := 0
	for i := 1; i < 3 && i < len(in); i++ {
		if in[i] != nil && len(in[0]) > 0 && !isRow(in[i], in[0], (int(k.axis)+len(in[0]))%len(in[0])) {
			n += executor.RoundUp(k.size * elements(in[0]))
		}
	}
	return n
}

// operand returns the elements of a scale or bias, and how far one row's are from the next one's.
func (k *layerNormKernel) operand(
	c *executor.Ctx, i int, what string, x *executor.Tensor, axis int,
) (data []byte, step int, err error) {
	t := c.In(i)
	if t == nil {
		return nil, 0, nil
	}
	if isRow(t.Shape, x.Shape, axis) {
		return t.Data, 0, nil
	}
	lead := x.Rank() - t.Rank()
	bad := lead < 0
	for j := 0; j < t.Rank() && !bad; j++ {
		bad = t.Shape[j] != 1 && t.Shape[j] != x.Shape[lead+j]
	}
	if bad {
		return nil, 0, c.Errorf("input %d, the %s, has shape %v, which cannot be stretched to %v",
			i, what, t.Shape, x.Shape)
	}
	e := k.stretch
	e.in, e.shape = append(e.in[:0], t), append(e.shape[:0], x.Shape...)
	if err := e.place(c); err != nil {
		return nil, 0, err
	}
	data = c.Scratch(k.size * x.Len())
	e.pack(e.begin(), &executor.Tensor{DType: x.DType, Data: data})
	return data, elements(x.Shape[axis:]), e.line(e.n, 1)
}

// Run normalises.
func (k *layerNormKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	axis, err := operand.DataAxis(c, k.axis, x.Rank())
	if err != nil {
		return err
	}
	scale, scaleStep, err := k.operand(c, 1, "scale", x, axis)
	if err != nil {
		return err
	}
	bias, biasStep, err := k.operand(c, 2, "bias", x, axis)
	if err != nil {
		return err
	}
	k.shape = append(k.shape[:0], x.Shape...)
	for i := axis; i < len(k.shape); i++ {
		k.shape[i] = 1
	}
	y := c.Out(0, x.Shape...)
	var mean *executor.Tensor
	invAt := 1
	if !k.simple {
		mean, invAt = c.Out(1, k.shape...), 2
	}
	inv := c.Out(invAt, k.shape...)
	rows, n := elements(x.Shape[:axis]), elements(x.Shape[axis:])
	k.begin().In(x.Data).In(scale).In(bias).Out(dataOf(y)).Out(dataOf(mean)).Out(dataOf(inv)).Int(rows).
		Int(n).Int(scaleStep).Int(biasStep).Float32(k.epsilon).Uint32(flag(k.simple)).Uint32(typeOf(mean)).
		Uint32(typeOf(inv)).Uint32(wide(x.DType, n))
	return k.teams(rows, n)
}

// dataOf returns the memory of an operand, nil if it is left out.
func dataOf(t *executor.Tensor) []byte {
	if t == nil {
		return nil
	}
	return t.Data
}

// typeOf returns the number of a statistic's type; any where it is left out.
func typeOf(t *executor.Tensor) uint32 {
	if t == nil {
		return 0
	}
	return statType(t.DType)
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// sameShapes makes sure that two inputs have the same shape.
func sameShapes(c *executor.Ctx, i, j int) error {
	a, b := c.In(i), c.In(j)
	if !slices.Equal(a.Shape, b.Shape) {
		return c.Errorf("input %d is %v and input %d is %v; the shapes must be equal", i, a, j, b)
	}
	return nil
}
