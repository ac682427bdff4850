package cuda

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// anyFloats rejects required operands whose types kernels/anyfloat.h does not have.
func anyFloats(p *executor.Prep, types ...graph.DType) error {
	for _, t := range types {
		if !isFloat(t) {
			return noTypes(p)
		}
	}
	return nil
}

// deviceScalar returns an input of one element, which the kernel reads.
func deviceScalar(c *executor.Ctx, i int, what string) (*executor.Tensor, error) {
	t := c.In(i)
	if t == nil || t.Len() != 1 {
		return nil, c.Errorf("input %d, %s, is %v, wanted a scalar", i, what, t)
	}
	return t, nil
}

// scaleKernel multiplies tensors by a scalar, or divides them by it.
type scaleKernel struct {
	*launch
	down, fuse bool
	to         graph.DType
}

// newScale makes the kernel of Scale.
func newScale(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if err := anyFloats(p, p.DType(0), p.DType(1)); err != nil {
		return nil, err
	}
	l, err := d.launch("scale", "scale_any")
	return &scaleKernel{launch: l, down: p.Node.Int("scale_down", 0) != 0}, err
}

// Run scales.
func (k *scaleKernel) Run(c *executor.Ctx) error {
	s, err := deviceScalar(c, 1, "the scale")
	if err != nil {
		return err
	}
	x := c.In(0)
	if y := c.Out(0, x.Shape...); y != nil {
		return k.scale(x, s, y.Data, y.DType)
	}
	return nil
}

// scale writes x times s, or divided by it, to y.
func (k *scaleKernel) scale(x, s *executor.Tensor, y []byte, to graph.DType) error {
	k.begin().In(x.Data).In(s.Data).Out(y).Int(x.Len()).Uint32(typeOf(x)).Uint32(typeOf(s)).
		Uint32(statType(to)).Uint32(flag(k.down))
	return k.line(x.Len(), 4)
}

// mixedScale is MixedPrecisionScale: inputs from 1 on times the scalar in input 0, converted, as
// outputs of their own or one after the other in one vector.
type mixedScale scaleKernel

// newMixedPrecisionScale makes the kernel of MixedPrecisionScale.
func newMixedPrecisionScale(d *Device, p *executor.Prep) (executor.Kernel, error) {
	to := graph.DType(p.Node.Int("to", 0))
	if err := anyFloats(p, append([]graph.DType{to}, p.In...)...); err != nil {
		return nil, err
	}
	l, err := d.launch("scale", "scale_any")
	return &mixedScale{launch: l, to: to, fuse: p.Node.Int("fuse_outputs", 0) != 0}, err
}

// Run scales the inputs one by one.
func (k *mixedScale) Run(c *executor.Ctx) error {
	s, err := deviceScalar(c, 0, "the scale")
	if err != nil {
		return err
	}
	var fused []byte
	if k.fuse {
		total := 0
		for i := 1; i < c.Inputs(); i++ {
			total += c.In(i).Len()
		}
		y := c.Out(0, total)
		if y == nil {
			return nil
		}
		fused = y.Data
	}
	for i := 1; i < c.Inputs(); i++ {
		x, at := c.In(i), fused
		if k.fuse {
			n := x.Len() * k.to.Bits() / 8
			at, fused = fused[:n], fused[n:]
		} else if y := c.Out(i-1, x.Shape...); y != nil {
			at = y.Data
		} else {
			continue
		}
		if err := (*scaleKernel)(k).scale(x, s, at, k.to); err != nil {
			return err
		}
	}
	return nil
}

// scaledSum computes ScaledSum.
type scaledSum struct {
	*launch
	by [3]float32
}

// newScaledSum makes the kernel of ScaledSum.
func newScaledSum(d *Device, p *executor.Prep) (executor.Kernel, error) {
	if err := anyFloats(p, p.DType(0), p.DType(1)); err != nil {
		return nil, err
	}
	if err := sameTypes(p); err != nil {
		return nil, err
	}
	l, err := d.launch("scale", "scaled_sum_any")
	n := p.Node
	return &scaledSum{l, [3]float32{n.Float("scale_0", 1), n.Float("scale_1", 1), n.Float("scale_2", 1)}}, err
}

// Run adds.
func (k *scaledSum) Run(c *executor.Ctx) error {
	x := c.In(0)
	for i := 1; i < c.Inputs(); i++ {
		if c.In(i) == nil {
			continue
		}
		if err := sameShapes(c, 0, i); err != nil {
			return err
		}
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	a := k.begin()
	for i := range 3 {
		a.In(dataOf(c.In(i)))
	}
	a.Out(y.Data).Int(x.Len()).Uint32(typeOf(x))
	for _, s := range k.by {
		a.Float32(s)
	}
	return k.line(x.Len(), 4)
}

// accumulateKernel is InPlaceAccumulator, or InPlaceAccumulatorV2 if replace is set. In V2, a true
// scalar in input 2 makes the value replace the sum; in the other, a false one leaves the sum
// unchanged.
type accumulateKernel struct {
	*launch
	replace bool
}

// accumulator makes the kernel of InPlaceAccumulator, or of InPlaceAccumulatorV2.
func accumulator(replace bool) maker {
	return func(d *Device, p *executor.Prep) (executor.Kernel, error) {
		if err := anyFloats(p, p.DType(0), p.DType(1)); err != nil {
			return nil, err
		}
		l, err := d.launch("scale", "accumulate_any")
		return &accumulateKernel{l, replace}, err
	}
}

// Run adds. Where the result of InPlaceAccumulatorV2 is left out, it updates the buffer.
func (k *accumulateKernel) Run(c *executor.Ctx) error {
	sum, value := c.In(0), c.In(1)
	if !slices.Equal(sum.Shape, value.Shape) {
		return c.Errorf("input 1 is %v, wanted %v as the buffer", value, sum)
	}
	if t := c.In(2); t != nil && t.Len() != 1 {
		return c.Errorf("input 2, the flag, has shape %v, wanted a scalar", t.Shape)
	}
	var done []byte
	y := sum
	switch {
	case !k.replace:
		y = c.Out(0, sum.Shape...)
	case c.Wants(1):
		y = c.Out(1, sum.Shape...)
	}
	if k.replace {
		done = dataOf(c.Out(0, 1))
	}
	if y == nil {
		return nil
	}
	k.begin().In(sum.Data).In(value.Data).In(dataOf(c.In(2))).Out(y.Data).Out(done).Int(sum.Len()).
		Uint32(typeOf(sum)).Uint32(typeOf(value)).Uint32(flag(k.replace)).Uint32(flag(k.replace))
	return k.line(max(sum.Len(), 1), 4) // done is set for an empty buffer too
}
