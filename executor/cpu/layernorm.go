package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// Norms over the axes from axis on, of x with n elements there:
//
//	LayerNormalization  y = (x-m)*r*scale + bias, m = mean(x), r = 1/√(mean((x-m)²)+epsilon)
//	RMSNormalization    y = x*r*scale, r = 1/√(mean(x²)+epsilon)
//
// ONNX Runtime calls the second SimplifiedLayerNormalization. The statistics m and r are computed from
// two passes over a row in the type of the elements, or in float32 for 16-bit types.
// https://onnx.ai/onnx/operators/onnx__LayerNormalization.html

// layerNormKernel is LayerNormalization or, if simple, RMSNormalization.
type layerNormKernel[T normElem] struct {
	attr    int64
	epsilon float64
	simple  bool

	n           int
	x, y        []T
	scale, bias normOperand[T]
	mean, inv   normStats
	shape       []int
}

// newLayerNorm makes either norm.
func newLayerNorm(simple bool) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		if !normTypes(p, len(p.In), 1) {
			return nil, unsupportedTypes(p)
		}
		switch p.DType(0) {
		case graph.Float32:
			return makeLayerNorm[float32](p, simple), nil
		case graph.Float64:
			return makeLayerNorm[float64](p, simple), nil
		}
		return nil, unsupportedTypes(p)
	})
}

func makeLayerNorm[T normElem](p *executor.Prep, simple bool) executor.Kernel {
	return &layerNormKernel[T]{attr: p.Node.Int("axis", -1), epsilon: normEpsilon(p), simple: simple}
}

// normEpsilon reads the attribute epsilon, 1e-5 where it is absent.
func normEpsilon(p *executor.Prep) float64 { return float64(p.Node.Float("epsilon", 1e-5)) }

// Workspace counts operands that are not rows.
func (k *layerNormKernel[T]) Workspace(in, _ [][]int) int {
	return normOperandSpace(in, 1, int(k.attr)) + normOperandSpace(in, 2, int(k.attr))
}

// Run normalises.
func (k *layerNormKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	axis, err := normAxis(c, k.attr, x.Rank())
	if err != nil {
		return err
	}
	if err := k.scale.read(c, 1, "scale", x.Shape, axis); err != nil {
		return err
	}
	if err := k.bias.read(c, 2, "bias", x.Shape, axis); err != nil {
		return err
	}
	k.shape = append(k.shape[:0], x.Shape...)
	for i := axis; i < len(k.shape); i++ {
		k.shape[i] = 1
	}
	k.n = product(x.Shape[axis:])
	k.x, k.y = executor.Cast[T](x.Data), normOut[T](c, 0, x.Shape...)
	k.mean = normStats{}
	if k.simple {
		k.inv.open(c, 1, k.shape...)
	} else {
		k.mean.open(c, 1, k.shape...)
		k.inv.open(c, 2, k.shape...)
	}
	c.Parallel(product(x.Shape[:axis]), normGrain(2*k.n), k)
	return nil
}

// Range normalises rows lo..hi-1.
func (k *layerNormKernel[T]) Range(lo, hi int) {
	for ; lo < hi; lo++ {
		x := k.x[lo*k.n : (lo+1)*k.n]
		m, inv := normRowStats(x, k.simple, k.epsilon)
		if k.y != nil {
			normRow(k.y[lo*k.n:(lo+1)*k.n], x, k.scale.row(lo), k.bias.row(lo), m, inv)
		}
		k.mean.put(lo, float64(m))
		k.inv.put(lo, float64(inv))
	}
}

// normRowStats returns the mean of a row, 0 if simple, and its inverse deviation from that.
func normRowStats[T normElem](x []T, simple bool, epsilon float64) (m, inv T) {
	n := T(len(x))
	if !simple {
		m = normSum(x) / n
	}
	v := normSumSquares(x, m) / n
	return m, T(1 / math.Sqrt(float64(v)+epsilon))
}

// normRow sets y = (x-m)*inv*scale + bias, where scale and bias may be nil. It goes block by block
// so that y stays in the cache.
func normRow[T normElem](y, x, scale, bias []T, m, inv T) {
	const block = 2048
	for lo := 0; lo < len(x); lo += block {
		hi := min(lo+block, len(x))
		b := y[lo:hi]
		if m != 0 {
			normAddScalar(b, x[lo:hi], -m)
			normMulScalar(b, b, inv)
		} else {
			normMulScalar(b, x[lo:hi], inv)
		}
		switch {
		case scale != nil && bias != nil:
			normMulAdd(b, b, scale[lo:hi], bias[lo:hi])
		case scale != nil:
			normMul(b, b, scale[lo:hi])
		case bias != nil:
			normAdd(b, b, bias[lo:hi])
		}
	}
}
