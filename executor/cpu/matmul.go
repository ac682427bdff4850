package cpu

import (
	"fmt"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// matrices says how an operand of a product lies in memory: matrices of rows × cols after
// transposition, whose rows (columns where trans) start ld elements apart, at places given by
// the leading dims and their strides.
type matrices struct {
	dims, strides    []int
	rows, cols, ld   int
	trans            bool
	vector           bool // rank 1
	transM, transBat bool // FusedMatMul's trans and transBatch
}

// set reads a shape. right marks the second operand, whose vectors are columns.
//
// With transBatch, axis 0 holds the rows and the batch axes follow it.
func (m *matrices) set(shape []int, right bool) {
	m.dims, m.strides = m.dims[:0], m.strides[:0]
	m.vector, m.trans = len(shape) == 1, false
	switch n := len(shape); {
	case n == 1 && right:
		m.rows, m.cols, m.ld = shape[0], 1, 1
	case n == 1:
		m.rows, m.cols, m.ld = 1, shape[0], max(shape[0], 1)
	case m.transBat:
		m.rows, m.cols, m.ld = shape[0], shape[n-1], max(product(shape[1:]), 1)
		m.lead(shape[1:n-1], shape[n-1])
	default:
		m.rows, m.cols, m.ld = shape[n-2], shape[n-1], max(shape[n-1], 1)
		m.lead(shape[:n-2], shape[n-2]*shape[n-1])
	}
	if m.transM && !m.vector {
		m.trans, m.rows, m.cols = true, m.cols, m.rows
	}
}

// lead sets the batch axes; the last of them has the given stride.
func (m *matrices) lead(dims []int, stride int) {
	m.dims = append(m.dims, dims...)
	m.strides = append(m.strides, dims...)
	for i := len(dims) - 1; i >= 0; i-- {
		m.strides[i] = stride
		stride *= dims[i]
	}
}

// matMulShape is the geometry of numpy.matmul(A, B) with broadcast batches.
type matMulShape struct {
	a, b    matrices
	m, n, k int
	batch   []int // broadcast leading dims
	shape   []int // of the result
	places  []blas.Place
}

// set computes the geometry of operands with the given shapes.
func (s *matMulShape) set(a, b []int) error {
	if len(a) == 0 || len(b) == 0 {
		return fmt.Errorf("shapes %v and %v cannot be multiplied: scalars have no rows or columns", a, b)
	}
	s.a.set(a, false)
	s.b.set(b, true)
	if s.a.cols != s.b.rows {
		return fmt.Errorf("shapes %v and %v cannot be multiplied: %d columns meet %d rows", a, b, s.a.cols, s.b.rows)
	}
	s.m, s.n, s.k = s.a.rows, s.b.cols, s.a.cols
	if err := s.broadcast(); err != nil {
		return fmt.Errorf("shapes %v and %v cannot be multiplied: %w", a, b, err)
	}
	s.shape = append(s.shape[:0], s.batch...)
	if !s.a.vector {
		s.shape = append(s.shape, s.m)
	}
	if !s.b.vector {
		s.shape = append(s.shape, s.n)
	}
	s.locate()
	return nil
}

// broadcast finds the batch dims, and makes the strides of repeated dims 0.
func (s *matMulShape) broadcast() error {
	rank := max(len(s.a.dims), len(s.b.dims))
	s.batch = s.batch[:0]
	for i := range rank {
		x, y := s.a.lead1(i, rank), s.b.lead1(i, rank)
		d := max(x, y)
		if x == 0 || y == 0 {
			d = 0
		}
		if x != d && x != 1 || y != d && y != 1 {
			return fmt.Errorf("dims %d and %d before the last two", x, y)
		}
		s.batch = append(s.batch, d)
	}
	return nil
}

// lead1 returns the batch dim at axis i of rank, or 1 if the operand has fewer.
func (m *matrices) lead1(i, rank int) int {
	if i -= rank - len(m.dims); i >= 0 {
		return m.dims[i]
	}
	return 1
}

// stride returns how far apart the matrices along batch axis i are, or 0 if one is repeated.
func (m *matrices) stride(i, rank int) int {
	if i -= rank - len(m.dims); i < 0 || m.dims[i] == 1 {
		return 0
	}
	return m.strides[i]
}

// locate lists where the matrices of each product start. Products that share B and whose rows
// follow one another in A become one.
func (s *matMulShape) locate() {
	count := product(s.batch)
	s.places = s.places[:0]
	if len(s.b.dims) == 0 || product(s.b.dims) == 1 {
		if !s.a.transM && !s.a.transBat && count > 0 && product(s.a.dims) == count {
			s.m *= count
			count = 1
		}
	}
	if count == 0 {
		return
	}
	s.places = append(s.places, blas.Place{})
	if count == 1 {
		return
	}
	// From the last axis to the first: repeat the existing places at each step along the axis.
	rank, size := len(s.batch), s.m*s.n
	for i := rank - 1; i >= 0; i-- {
		da, db, done := s.a.stride(i, rank), s.b.stride(i, rank), len(s.places)
		for step := 1; step < s.batch[i]; step++ {
			for _, p := range s.places[:done] {
				s.places = append(s.places, blas.Place{A: p.A + step*da, B: p.B + step*db, C: p.C + step*size})
			}
		}
		size *= s.batch[i]
	}
}

// matMulKernel multiplies matrices of floats:
// https://onnx.ai/onnx/operators/onnx__MatMul.html, and com.microsoft's FusedMatMul.
type matMulKernel[T blas.Float] struct {
	geometry matMulShape
	product  blas.Gemm[T]
}

// newMatMul makes the kernel of MatMul.
func newMatMul(p *executor.Prep) (executor.Kernel, error) {
	return newMatMulOf(p, matMulShape{}, 1)
}

// newFusedMatMul makes the kernel of alpha*MatMul(A', B'), where A' is A with its last two axes
// swapped (transA) after its first axis has been moved after the batch axes (transBatchA).
func newFusedMatMul(p *executor.Prep) (executor.Kernel, error) {
	var s matMulShape
	s.a.transM, s.a.transBat = p.Node.Int("transA", 0) != 0, p.Node.Int("transBatchA", 0) != 0
	s.b.transM, s.b.transBat = p.Node.Int("transB", 0) != 0, p.Node.Int("transBatchB", 0) != 0
	return newMatMulOf(p, s, p.Node.Float("alpha", 1))
}

func newMatMulOf(p *executor.Prep, s matMulShape, alpha float32) (executor.Kernel, error) {
	if p.DType(0) != p.DType(1) {
		return nil, p.Errorf("inputs have types %v and %v, wanted the same", p.DType(0), p.DType(1))
	}
	switch p.DType(0) {
	case graph.Float32:
		blas.Warm()
		return &matMulKernel[float32]{geometry: s, product: blas.Gemm[float32]{Alpha: alpha}}, nil
	case graph.Float64:
		blas.Warm()
		return &matMulKernel[float64]{geometry: s, product: blas.Gemm[float64]{Alpha: float64(alpha)}}, nil
	}
	if alpha != 1 {
		return nil, unsupportedTypes(p)
	}
	switch p.DType(0) {
	case graph.Int32:
		return &intMatMulKernel[int32]{geometry: s}, nil
	case graph.Int64:
		return &intMatMulKernel[int64]{geometry: s}, nil
	case graph.Uint32:
		return &intMatMulKernel[uint32]{geometry: s}, nil
	case graph.Uint64:
		return &intMatMulKernel[uint64]{geometry: s}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run multiplies.
func (k *matMulKernel[T]) Run(c *executor.Ctx) error {
	a, b := c.In(0), c.In(1)
	if err := k.geometry.set(a.Shape, b.Shape); err != nil {
		return err
	}
	y := c.Out(0, k.geometry.shape...)
	enterShape(&k.geometry, &k.product)
	k.product.A, k.product.B, k.product.C = executor.Of[T](a), executor.Of[T](b), executor.Of[T](y)
	runGemm(c, &k.product)
	return nil
}

// enterShape sets up a product from a geometry.
func enterShape[T blas.Float](s *matMulShape, g *blas.Gemm[T]) {
	g.M, g.N, g.K, g.Batch = s.m, s.n, s.k, s.places
	if len(s.places) == 0 {
		g.M = 0
	}
	g.TransA, g.LDA, g.TransB, g.LDB, g.LDC = s.a.trans, s.a.ld, s.b.trans, s.b.ld, max(s.n, 1)
}

// runGemm computes a product on all threads.
func runGemm[T blas.Float](c *executor.Ctx, g *blas.Gemm[T]) {
	tiles, grain := g.Plan()
	c.Parallel(tiles, grain, g)
}

// integers lists the element types of products in integers, which wrap around.
type integers interface {
	int32 | int64 | uint32 | uint64
}

// intMatMulKernel multiplies matrices of integers.
type intMatMulKernel[T integers] struct {
	geometry matMulShape
	a, b, y  []T
}

// Run multiplies.
func (k *intMatMulKernel[T]) Run(c *executor.Ctx) error {
	a, b, s := c.In(0), c.In(1), &k.geometry
	if err := s.set(a.Shape, b.Shape); err != nil {
		return err
	}
	y := c.Out(0, s.shape...)
	k.a, k.b, k.y = executor.Of[T](a), executor.Of[T](b), executor.Of[T](y)
	c.Parallel(len(s.places)*s.m, 1+1<<14/max(1, s.n*s.k), (*intMatMulRows[T])(k))
	return nil
}

type intMatMulRows[T integers] intMatMulKernel[T]

// Range computes rows of the result, counted over all products.
func (k *intMatMulRows[T]) Range(lo, hi int) {
	s := &k.geometry
	for r := lo; r < hi; r++ {
		at, i := s.places[r/s.m], r%s.m
		row := k.y[at.C+i*s.n:][:s.n]
		clear(row)
		for l := range s.k {
			f := k.a[at.A+s.a.place(i, l)]
			if s.b.trans {
				for j := range row {
					row[j] += f * k.b[at.B+j*s.b.ld+l]
				}
				continue
			}
			other := k.b[at.B+l*s.b.ld:][:len(row)]
			for j := range row {
				row[j] += f * other[j]
			}
		}
	}
}

// place returns where row i, column j of a matrix lies.
func (m *matrices) place(i, j int) int {
	if m.trans {
		i, j = j, i
	}
	return i*m.ld + j
}
