package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// batchedGemmKernel is Deeploy's Gemm of stacks of matrices: Y = alpha*A'*B' + beta*C, where '
// optionally swaps the last two axes, the axes before them are broadcast, and C is broadcast to Y.
type batchedGemmKernel[T blas.Float] struct {
	matMulKernel[T]
	beta T

	c, y    []T
	strides []int // in C, by axis of Y; 0 for an axis that repeats C
	dims    []int // of Y
}

func newBatchedGemm(p *executor.Prep) (executor.Kernel, error) {
	for i := 1; i < len(p.In); i++ {
		if p.Has(i) && p.DType(i) != p.DType(0) {
			return nil, p.Errorf("input %d has type %v, wanted %v as input 0", i, p.DType(i), p.DType(0))
		}
	}
	switch p.DType(0) {
	case graph.Float32:
		return makeBatchedGemm[float32](p), nil
	case graph.Float64:
		return makeBatchedGemm[float64](p), nil
	}
	return nil, unsupportedTypes(p)
}

func makeBatchedGemm[T blas.Float](p *executor.Prep) executor.Kernel {
	blas.Warm()
	k := &batchedGemmKernel[T]{beta: T(p.Node.Float("beta", 1))}
	k.product.Alpha = T(p.Node.Float("alpha", 1))
	k.geometry.a.transM, k.geometry.b.transM = p.Node.Int("transA", 0) != 0, p.Node.Int("transB", 0) != 0
	return k
}

// Run writes C into Y and adds the products to it.
func (k *batchedGemmKernel[T]) Run(c *executor.Ctx) error {
	a, b, bias := c.In(0), c.In(1), c.In(2)
	for i, t := range []*executor.Tensor{a, b} {
		if t.Rank() < 2 {
			return c.Errorf("input %d has shape %v, wanted matrices in the last two dims", i, t.Shape)
		}
	}
	if err := k.geometry.set(a.Shape, b.Shape); err != nil {
		return err
	}
	if bias != nil && !k.repeat(bias.Shape, k.geometry.shape) {
		return c.Errorf("input 2 has shape %v, wanted one that broadcasts to %v", bias.Shape, k.geometry.shape)
	}
	y := c.Out(0, k.geometry.shape...)
	enterShape(&k.geometry, &k.product)
	k.product.A, k.product.B, k.product.C = executor.Of[T](a), executor.Of[T](b), executor.Of[T](y)
	if k.product.Beta = 0; bias != nil && k.beta != 0 {
		k.product.Beta = k.beta
		k.c, k.y = executor.Of[T](bias), k.product.C
		n := k.dims[len(k.dims)-1]
		c.Parallel(product(k.dims[:len(k.dims)-1]), 1+1<<14/max(n, 1), k)
	}
	runGemm(c, &k.product)
	return nil
}

// repeat sets how C is broadcast to Y; ok is false if it cannot be.
func (k *batchedGemmKernel[T]) repeat(c, y []int) (ok bool) {
	k.dims, k.strides = append(k.dims[:0], y...), append(k.strides[:0], y...)
	if len(c) > len(y) {
		return false
	}
	step := 1
	for i := len(y) - 1; i >= 0; i-- {
		d := 1
		if j := i - (len(y) - len(c)); j >= 0 {
			d = c[j]
		}
		if d != 1 && d != y[i] {
			return false
		}
		if k.strides[i] = 0; d != 1 {
			k.strides[i] = step
		}
		step *= d
	}
	return true
}

// Range writes C into rows lo..hi-1 of Y.
func (k *batchedGemmKernel[T]) Range(lo, hi int) {
	last := len(k.dims) - 1
	n, step := k.dims[last], k.strides[last]
	for r := lo; r < hi; r++ {
		from := 0
		for i, rest := last-1, r; i >= 0; i-- {
			from += rest % k.dims[i] * k.strides[i]
			rest /= k.dims[i]
		}
		row := k.y[r*n:][:n]
		for j := range row {
			row[j] = k.c[from+j*step]
		}
	}
}
