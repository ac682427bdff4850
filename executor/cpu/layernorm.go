package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// Norms over the axes from axis on, of x with n elements there:
//
//	LayerNormalization  y = (x-m)*r*scale + bias, m = mean(x), r = 1/√(mean((x-m)²)+epsilon)
//	RMSNormalization    y = x*r*scale, r = 1/√(mean(x²)+epsilon)
//
// ONNX Runtime calls the second SimplifiedLayerNormalization. The statistics m and r are computed
// from two passes over a row in the type of the elements, or in float32 for 16-bit types.
// https://onnx.ai/onnx/operators/onnx__LayerNormalization.html

// layerNormKernel is LayerNormalization or, if simple, RMSNormalization.
type layerNormKernel[T normElem] struct {
	attr    int64
	epsilon float64
	simple  bool

	n           int
	x, y        normTensor[T]
	scale, bias normOperand[T]
	mean, inv   normStats
	shape       []int
}

// newLayerNorm makes either norm.
func newLayerNorm(simple bool) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		if !normTypes(p, len(p.In), 1) {
			return nil, unsupportedTypes(p)
		}
		switch normAccumulates(p.DType(0)) {
		case graph.Float32:
			return makeLayerNorm[float32](p, simple), nil
		case graph.Float64:
			return makeLayerNorm[float64](p, simple), nil
		}
		return nil, unsupportedTypes(p)
	}
}

func makeLayerNorm[T normElem](p *executor.Prep, simple bool) executor.Kernel {
	return &layerNormKernel[T]{attr: p.Node.Int("axis", -1), epsilon: normEpsilon(p), simple: simple}
}

// normEpsilon reads the attribute epsilon, 1e-5 where it is absent.
func normEpsilon(p *executor.Prep) float64 { return float64(p.Node.Float("epsilon", 1e-5)) }

// Workspace counts operands that are not rows, and converted ones.
func (k *layerNormKernel[T]) Workspace(in, _ [][]int) int {
	return normOperandSpace(in, 1, int(k.attr)) + normOperandSpace(in, 2, int(k.attr)) + normWideSpace(in, 1, 2)
}

// Run normalises.
func (k *layerNormKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	axis, err := operand.DataAxis(c, k.attr, x.Rank())
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
	k.x, k.y = normOpen[T](x), normOpen[T](c.Out(0, x.Shape...))
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
	var block [normBlock]T
	buf := block[:]
	for ; lo < hi; lo++ {
		m, inv := normRowStats(buf, &k.x, lo*k.n, k.n, k.simple, k.epsilon)
		if k.y.given() {
			normRow(buf, &k.y, &k.x, lo*k.n, k.n, k.scale.row(lo), k.bias.row(lo), m, inv)
		}
		k.mean.put(lo, float64(m))
		k.inv.put(lo, float64(inv))
	}
}

// normRowStats returns the mean of n neighbouring elements, 0 if simple, and their inverse
// deviation from that.
func normRowStats[T normElem](buf []T, x *normTensor[T], at, n int, simple bool, epsilon float64) (m, inv T) {
	if !simple {
		m = x.sum(buf, at, n) / T(n)
	}
	v := x.sumSquares(buf, at, n, m) / T(n)
	return m, T(1 / math.Sqrt(float64(v)+epsilon))
}

// normRow sets n neighbouring elements of y to (x-m)*inv*scale + bias, where scale and bias may be
// nil.
func normRow[T normElem](buf []T, y, x *normTensor[T], at, n int, scale, bias []T, m, inv T) {
	for lo := 0; lo < n; lo += normBlock {
		hi := min(lo+normBlock, n)
		b := y.place(buf, at+lo, hi-lo)
		normAddScalar(b, x.load(buf, at+lo, hi-lo), -m)
		normMulScalar(b, b, inv)
		switch {
		case scale != nil && bias != nil:
			normMulAdd(b, b, scale[lo:hi], bias[lo:hi])
		case scale != nil:
			normMul(b, b, scale[lo:hi])
		case bias != nil:
			normAdd(b, b, bias[lo:hi])
		}
		y.store(at+lo, b)
	}
}
