package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// gemmKernel computes Y = f(alpha*A'*B' + beta*C) for matrices A and B, each transposed on demand,
// and C, which is broadcast to Y; f is the identity, or FusedGemm's activation.
//
//	https://onnx.ai/onnx/operators/onnx__Gemm.html
type gemmKernel[T blas.Float] struct {
	product    blas.Gemm[T]
	beta       T
	activation *gemmActivation // nil without an activation

	c        []T // nil if left out
	row, col int // how far apart in c are elements of the next row and column of Y
}

// newGemm makes the kernel of Gemm.
func newGemm(p *executor.Prep) (executor.Kernel, error) { return newGemmWith(p, nil) }

// newFusedGemm makes the kernel of com.microsoft's FusedGemm.
func newFusedGemm(p *executor.Prep) (executor.Kernel, error) {
	f, err := newGemmActivation(p)
	if err != nil {
		return nil, err
	}
	return newGemmWith(p, f)
}

func newGemmWith(p *executor.Prep, f *gemmActivation) (executor.Kernel, error) {
	for i := 1; i < len(p.In); i++ {
		if p.Has(i) && p.DType(i) != p.DType(0) {
			return nil, p.Errorf("input %d has type %v, wanted %v as input 0", i, p.DType(i), p.DType(0))
		}
	}
	switch p.DType(0) {
	case graph.Float32:
		return newFloatGemm[float32](p, f), nil
	case graph.Float64:
		return newFloatGemm[float64](p, f), nil
	case graph.Int32:
		return newIntGemm[int32](p, f)
	case graph.Int64:
		return newIntGemm[int64](p, f)
	case graph.Uint32:
		return newIntGemm[uint32](p, f)
	case graph.Uint64:
		return newIntGemm[uint64](p, f)
	}
	return nil, unsupportedTypes(p)
}

func newFloatGemm[T blas.Float](p *executor.Prep, f *gemmActivation) executor.Kernel {
	blas.Warm()
	k := &gemmKernel[T]{beta: T(p.Node.Float("beta", 1)), activation: f}
	k.product.Alpha = T(p.Node.Float("alpha", 1))
	k.product.TransA, k.product.TransB = p.Node.Int("transA", 0) != 0, p.Node.Int("transB", 0) != 0
	return k
}

// Run computes Y.
func (k *gemmKernel[T]) Run(c *executor.Ctx) error {
	a, b, bias, g := c.In(0), c.In(1), c.In(2), &k.product
	var err error
	if g.M, g.N, g.K, err = gemmDims(c, g.TransA, g.TransB); err != nil {
		return err
	}
	if k.row, k.col, err = gemmBias(c, g.M, g.N); err != nil {
		return err
	}
	y := c.Out(0, g.M, g.N)
	g.A, g.B, g.C, k.c = executor.Of[T](a), executor.Of[T](b), executor.Of[T](y), nil
	g.LDA, g.LDB, g.LDC = max(a.Shape[1], 1), max(b.Shape[1], 1), max(g.N, 1)
	if g.Beta = 0; bias != nil && k.beta != 0 {
		k.c, g.Beta = executor.Of[T](bias), k.beta
	}
	tiles, grain := g.Plan()
	c.Parallel(tiles, grain, (*gemmTiles[T])(k))
	return nil
}

// gemmDims returns the rows and columns of Y and the number of terms of each sum.
func gemmDims(c *executor.Ctx, transA, transB bool) (m, n, k int, err error) {
	a, b := c.In(0), c.In(1)
	for i, t := range []*executor.Tensor{a, b} {
		if t.Rank() != 2 {
			return 0, 0, 0, c.Errorf("input %d has shape %v, wanted a matrix", i, t.Shape)
		}
	}
	m, k, n = a.Shape[0], a.Shape[1], b.Shape[1]
	if transA {
		m, k = k, m
	}
	rows := b.Shape[0]
	if transB {
		n, rows = rows, n
	}
	if rows != k {
		return 0, 0, 0, c.Errorf("shapes %v and %v cannot be multiplied: %d columns meet %d rows",
			a.Shape, b.Shape, k, rows)
	}
	return m, n, k, nil
}

// gemmBias returns the steps in C that correspond to one row and one column of Y: 0 where C is
// broadcast.
func gemmBias(c *executor.Ctx, m, n int) (row, col int, err error) {
	t := c.In(2)
	if t == nil {
		return 0, 0, nil
	}
	rows, cols := 1, 1
	switch t.Rank() {
	case 0:
	case 1:
		cols = t.Shape[0]
	case 2:
		rows, cols = t.Shape[0], t.Shape[1]
	default:
		rows = -1
	}
	if rows != 1 && rows != m || cols != 1 && cols != n {
		return 0, 0, c.Errorf("input 2 has shape %v, wanted one that broadcasts to [%d %d]", t.Shape, m, n)
	}
	if rows != 1 {
		row = cols
	}
	if cols != 1 {
		col = 1
	}
	return row, col, nil
}

type gemmTiles[T blas.Float] gemmKernel[T]

// Range computes tiles: it writes C into each, adds the product and applies the activation
// while the tile is in the cache.
func (k *gemmTiles[T]) Range(lo, hi int) {
	g := &k.product
	for t := lo; t < hi; t++ {
		tile := g.Tile(t)
		if k.c != nil {
			k.fill(tile)
		}
		g.Compute(tile)
		if k.activation == nil {
			continue
		}
		for i := range tile.Rows {
			gemmActivate(k.activation, g.C[(tile.Row+i)*g.LDC+tile.Col:][:tile.Cols])
		}
	}
}

// fill writes C into a tile of Y, unless Y lies where C does.
func (k *gemmTiles[T]) fill(t blas.Tile) {
	if len(k.c) == len(k.product.C) && &k.c[0] == &k.product.C[0] {
		return
	}
	for i := range t.Rows {
		row := k.product.C[(t.Row+i)*k.product.LDC+t.Col:][:t.Cols]
		from := k.c[(t.Row+i)*k.row+t.Col*k.col:]
		if k.col == 1 {
			copy(row, from)
			continue
		}
		for j := range row {
			row[j] = from[0]
		}
	}
}

// intGemmKernel is Gemm in integers; alpha and beta must be integers as well.
type intGemmKernel[T integers] struct {
	alpha, beta    T
	transA, transB bool
	m, n, k        int
	a, b, c, y     []T
	lda, ldb       int
	row, col       int
}

func newIntGemm[T integers](p *executor.Prep, f *gemmActivation) (executor.Kernel, error) {
	alpha, beta := p.Node.Float("alpha", 1), p.Node.Float("beta", 1)
	if f != nil {
		return nil, unsupportedTypes(p)
	}
	if alpha != float32(int32(alpha)) || beta != float32(int32(beta)) {
		return nil, p.Unsupported("alpha %v and beta %v are not integers, and input 0 has type %v",
			alpha, beta, p.DType(0))
	}
	return &intGemmKernel[T]{alpha: T(int64(alpha)), beta: T(int64(beta)),
		transA: p.Node.Int("transA", 0) != 0, transB: p.Node.Int("transB", 0) != 0}, nil
}

// Run computes Y.
func (k *intGemmKernel[T]) Run(c *executor.Ctx) (err error) {
	a, b, bias := c.In(0), c.In(1), c.In(2)
	if k.m, k.n, k.k, err = gemmDims(c, k.transA, k.transB); err != nil {
		return err
	}
	if k.row, k.col, err = gemmBias(c, k.m, k.n); err != nil {
		return err
	}
	y := c.Out(0, k.m, k.n)
	k.a, k.b, k.y, k.c = executor.Of[T](a), executor.Of[T](b), executor.Of[T](y), nil
	k.lda, k.ldb = a.Shape[1], b.Shape[1]
	if bias != nil {
		k.c = executor.Of[T](bias)
	}
	c.Parallel(k.m, 1+1<<14/max(1, k.n*k.k), (*intGemmRows[T])(k))
	return nil
}

type intGemmRows[T integers] intGemmKernel[T]

// Range computes rows of Y.
func (k *intGemmRows[T]) Range(lo, hi int) {
	a := matrices{ld: k.lda, trans: k.transA}
	b := matrices{ld: k.ldb, trans: k.transB}
	for i := lo; i < hi; i++ {
		row := k.y[i*k.n:][:k.n]
		for j := range row {
			var sum T
			for l := range k.k {
				sum += k.a[a.place(i, l)] * k.b[b.place(l, j)]
			}
			sum *= k.alpha
			if k.c != nil { // which may lie where Y does
				sum += k.beta * k.c[i*k.row+j*k.col]
			}
			row[j] = sum
		}
	}
}
