package cpu

import (
	"slices"

	"memopt/executor"
	"memopt/executor/cpu/blas"
)

// matMulAddKernel computes memopt's own MatMulAdd and FusedMatMulAdd: a product of stacks of matrices
// that is added to C, which has the product's shape and may be the output's memory.
type matMulAddKernel[T blas.Float] struct {
	matMulKernel[T]
	c []T
}

// newMatMulAdd makes the kernel of MatMul(A, B) + C.
func newMatMulAdd(p *executor.Prep) (executor.Kernel, error) { return adding(newMatMul, p) }

// newFusedMatMulAdd makes the kernel of FusedMatMul(A, B) + C.
func newFusedMatMulAdd(p *executor.Prep) (executor.Kernel, error) { return adding(newFusedMatMul, p) }

func adding(product func(*executor.Prep) (executor.Kernel, error), p *executor.Prep) (executor.Kernel, error) {
	if p.DType(2) != p.DType(0) {
		return nil, p.Errorf("input 2 has type %v, wanted %v as input 0", p.DType(2), p.DType(0))
	}
	k, err := product(p)
	if err != nil {
		return nil, err
	}
	switch k := k.(type) {
	case *matMulKernel[float32]:
		return &matMulAddKernel[float32]{matMulKernel: *k}, nil
	case *matMulKernel[float64]:
		return &matMulAddKernel[float64]{matMulKernel: *k}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run multiplies and adds.
func (k *matMulAddKernel[T]) Run(c *executor.Ctx) error {
	a, b, sum := c.In(0), c.In(1), c.In(2)
	if err := k.geometry.set(a.Shape, b.Shape); err != nil {
		return err
	}
	if !slices.Equal(sum.Shape, k.geometry.shape) {
		return c.Errorf("input 2 has shape %v, wanted the product's, %v", sum.Shape, k.geometry.shape)
	}
	y := c.Out(0, k.geometry.shape...)
	enterShape(&k.geometry, &k.product)
	k.product.A, k.product.B, k.product.C = executor.Of[T](a), executor.Of[T](b), executor.Of[T](y)
	k.product.Beta, k.c = 1, executor.Of[T](sum)
	tiles, grain := k.product.Plan()
	c.Parallel(tiles, grain, (*matMulAddTiles[T])(k))
	return nil
}

type matMulAddTiles[T blas.Float] matMulAddKernel[T]

// Range computes tiles: it writes C into each, unless it is there, and adds the product while the tile is
// in the cache.
func (k *matMulAddTiles[T]) Range(lo, hi int) {
	g := &k.product
	for t := lo; t < hi; t++ {
		tile := g.Tile(t)
		if &k.c[0] != &g.C[0] {
			for i := range tile.Rows {
				at := tile.C + (tile.Row+i)*g.LDC + tile.Col
				copy(g.C[at:][:tile.Cols], k.c[at:])
			}
		}
		g.Compute(tile)
	}
}
