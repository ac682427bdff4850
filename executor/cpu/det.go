package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// detKernel computes the determinant of each matrix in the last two dims, by Gaussian elimination
// in float64: https://onnx.ai/onnx/operators/onnx__Det.html
type detKernel[T blas.Float] struct {
	n    int
	x, y []T
	work []float64 // a copy of every matrix
}

func newDet(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return new(detKernel[float32]), nil
	case graph.Float64:
		return new(detKernel[float64]), nil
	}
	return nil, unsupportedTypes(p)
}

// Workspace holds the copies.
func (k *detKernel[T]) Workspace(in, _ [][]int) int { return executor.RoundUp(8 * product(in[0])) }

// Run computes the determinants.
func (k *detKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	r := x.Rank()
	if r < 2 || x.Shape[r-1] != x.Shape[r-2] {
		return c.Errorf("input 0 has shape %v, wanted square matrices in the last two dims", x.Shape)
	}
	y := c.Out(0, x.Shape[:r-2]...)
	k.n, k.x, k.y = x.Shape[r-1], executor.Of[T](x), executor.Of[T](y)
	k.work = executor.ScratchOf[float64](c, len(k.x))
	c.Parallel(len(k.y), 1+1<<15/(1+k.n*k.n*k.n), k)
	return nil
}

// Range computes determinants.
func (k *detKernel[T]) Range(lo, hi int) {
	size := k.n * k.n
	for i := lo; i < hi; i++ {
		m := k.work[i*size:][:size]
		for j, v := range k.x[i*size:][:size] {
			m[j] = float64(v)
		}
		k.y[i] = T(determinant(m, k.n))
	}
}

// determinant reduces an n×n matrix to a triangular one, with the largest remaining element of a
// column as its pivot, and multiplies the diagonal. The determinant of an empty matrix is 1.
func determinant(m []float64, n int) float64 {
	det := 1.0
	for col := range n {
		pivot := col
		for row := col + 1; row < n; row++ {
			if math.Abs(m[row*n+col]) > math.Abs(m[pivot*n+col]) {
				pivot = row
			}
		}
		if pivot != col {
			det = -det
			for j := range n {
				m[col*n+j], m[pivot*n+j] = m[pivot*n+j], m[col*n+j]
			}
		}
		head := m[col*n+col]
		det *= head
		if head == 0 {
			continue // NaN and infinities further on still show
		}
		for row := col + 1; row < n; row++ {
			f := m[row*n+col] / head
			for j := col; j < n; j++ {
				m[row*n+j] -= f * m[col*n+j]
			}
		}
	}
	return det
}
