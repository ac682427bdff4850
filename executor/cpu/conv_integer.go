package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// convIntegerKernel is ConvInteger: the convolution of x - x_zero_point and w - w_zero_point,
// which are 8-bit integers, in 32-bit integers. Padding counts as x_zero_point.
//
// The products are computed in float64, where every sum below 2^53 is exact: that is 2^37 taps.
//
// https://onnx.ai/onnx/operators/onnx__ConvInteger.html
type convIntegerKernel struct {
	attrs windowAttrs
	group int
	core  convCore[float64]
	shape []int

	x, w, y            *executor.Tensor
	xZero, wZero       []byte
	xSigned, wSigned   bool
	xWide, wWide, wide []float64
}

// newConvInteger makes a ConvInteger.
func newConvInteger(p *executor.Prep) (executor.Kernel, error) {
	for i := range 4 {
		if p.Has(i) && (p.DType(i) != graph.Int8 && p.DType(i) != graph.Uint8 || p.DType(i) != p.DType(i%2)) {
			return nil, unsupportedTypes(p)
		}
	}
	inner := *p
	inner.In = nil
	attrs, group, err := newConvAttrs(&inner)
	if err != nil {
		return nil, err
	}
	k := &convIntegerKernel{
		attrs: attrs, group: group, xSigned: p.DType(0) == graph.Int8, wSigned: p.DType(1) == graph.Int8,
	}
	k.core = convCore[float64]{math: newConvMath[float64](), threads: max(1, p.Threads)}
	return k, nil
}

// Workspace returns the bytes of workspace for the operands in float64 and the columns.
func (k *convIntegerKernel) Workspace(in, _ [][]int) int {
	plan, err := newConvPlan(&k.attrs, k.group, in[0], in[1], 8)
	if err != nil {
		return 0
	}
	core := convCore[float64]{convPlan: plan, threads: k.core.threads}
	return executor.RoundUp(8*product(in[0])) + executor.RoundUp(8*product(in[1])) +
		executor.RoundUp(8*plan.n*plan.m*plan.outPlane) + core.workspace()
}

// Run checks the shapes and computes.
func (k *convIntegerKernel) Run(c *executor.Ctx) error {
	x, w := c.In(0), c.In(1)
	var err error
	if k.core.convPlan, err = newConvPlan(&k.attrs, k.group, x.Shape, w.Shape, 8); err != nil {
		return err
	}
	k.xZero, k.wZero = nil, nil
	if z := c.In(2); z != nil {
		if z.Len() != 1 {
			return c.Errorf("input 2 (x_zero_point) has shape %v, wanted a scalar", z.Shape)
		}
		k.xZero = z.Data
	}
	if z := c.In(3); z != nil {
		if z.Len() != 1 && (z.Rank() != 1 || z.Len() != k.core.m) {
			return c.Errorf("input 3 (w_zero_point) has shape %v, wanted a scalar or [%d]", z.Shape, k.core.m)
		}
		k.wZero = z.Data
	}
	k.shape = k.core.outShape(k.shape[:0])
	if k.y = c.Out(0, k.shape...); k.y == nil {
		return nil
	}
	k.x, k.w = x, w
	k.xWide = executor.ScratchOf[float64](c, x.Len())
	k.wWide = executor.ScratchOf[float64](c, w.Len())
	k.wide = executor.ScratchOf[float64](c, k.y.Len())
	c.Parallel(x.Len(), 1<<14, (*convIntegerData)(k))
	c.Parallel(k.core.m, 1+1<<14/max(1, k.core.depth), (*convIntegerWeights)(k))
	k.core.x, k.core.w, k.core.y = k.xWide, k.wWide, k.wide
	k.core.run(c)
	c.Parallel(k.y.Len(), 1<<14, k)
	return nil
}

// Range converts the elements lo..hi-1 of the result.
func (k *convIntegerKernel) Range(lo, hi int) {
	y := executor.Of[int32](k.y)[lo:hi]
	for i, v := range k.wide[lo:hi] {
		y[i] = int32(int64(v))
	}
}

type convIntegerData convIntegerKernel

// Range converts the elements lo..hi-1 of x.
func (k *convIntegerData) Range(lo, hi int) {
	convIntegerWiden(k.xWide[lo:hi], k.x.Data[lo:hi], k.xSigned, k.xZero, 0)
}

type convIntegerWeights convIntegerKernel

// Range converts the filters lo..hi-1.
func (k *convIntegerWeights) Range(lo, hi int) {
	n := k.core.depth
	for m := lo; m < hi; m++ {
		at := 0
		if len(k.wZero) > 1 {
			at = m
		}
		convIntegerWiden(k.wWide[m*n:(m+1)*n], k.w.Data[m*n:(m+1)*n], k.wSigned, k.wZero, at)
	}
}

// convIntegerWiden sets dst[i] = src[i] - zero[at].
func convIntegerWiden(dst []float64, src []byte, signed bool, zero []byte, at int) {
	if signed {
		z := int8(0)
		if zero != nil {
			z = int8(zero[at])
		}
		for i, v := range src {
			dst[i] = float64(int(int8(v)) - int(z))
		}
		return
	}
	z := byte(0)
	if zero != nil {
		z = zero[at]
	}
	for i, v := range src {
		dst[i] = float64(int(v) - int(z))
	}
}
