package cpu

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/simd"
)

// globalPoolKernel reduces the spatial axes of X [N, C, d…] to 1: the mean, the largest element or
// the p-norm of every plane.
//
// https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html
type globalPoolKernel[T convFloat] struct {
	reduce func(x []T) T
	x, y   []T
	plane  int
	shape  []int
}

func newGlobalPool[T convFloat](reduce func([]T) T) (executor.Kernel, error) {
	return &globalPoolKernel[T]{reduce: reduce}, nil
}

// newGlobalAveragePool makes a GlobalAveragePool.
func newGlobalAveragePool(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newGlobalPool(func(x []float32) float32 { return simd.Sum(x) / float32(len(x)) })
	case graph.Float64:
		return newGlobalPool(func(x []float64) float64 { return convSum(x) / float64(len(x)) })
	}
	return nil, unsupportedTypes(p)
}

// newGlobalMaxPool makes a GlobalMaxPool.
func newGlobalMaxPool(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newGlobalPool(simd.Max)
	case graph.Float64:
		return newGlobalPool(func(x []float64) float64 {
			m := x[0]
			for _, v := range x[1:] {
				m = max(m, v)
			}
			return m
		})
	}
	return nil, unsupportedTypes(p)
}

// newGlobalLpPool makes a GlobalLpPool.
func newGlobalLpPool(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		n, err := newLpNorm[float32](p)
		if err != nil {
			return nil, err
		}
		return newGlobalPool(n.whole)
	case graph.Float64:
		n, err := newLpNorm[float64](p)
		if err != nil {
			return nil, err
		}
		return newGlobalPool(n.whole)
	}
	return nil, unsupportedTypes(p)
}

// Run checks the shape and computes.
func (k *globalPoolKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() < 2 {
		return c.Errorf("input 0 has rank %d, wanted batch, channel and spatial axes", x.Rank())
	}
	k.shape = append(k.shape[:0], x.Shape[:2]...)
	for range x.Rank() - 2 {
		k.shape = append(k.shape, 1)
	}
	k.plane = product(x.Shape[2:])
	if k.plane == 0 && x.Shape[0]*x.Shape[1] > 0 {
		return c.Errorf("input 0 has shape %v: its planes are empty", x.Shape)
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.x, k.y = executor.Of[T](x), executor.Of[T](y)
	c.Parallel(len(k.y), 1+1<<14/max(1, k.plane), k)
	return nil
}

// Range reduces the planes lo..hi-1.
func (k *globalPoolKernel[T]) Range(lo, hi int) {
	for i := lo; i < hi; i++ {
		k.y[i] = k.reduce(k.x[i*k.plane:][:k.plane])
	}
}
