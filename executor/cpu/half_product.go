package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// halfPanel is the number of columns that a product of 16-bit types computes at once.
const halfPanel = 256

// halfSmall is the number of multiplications below which a product is not worth a second thread.
const halfSmall = 1 << 18

// halfProduct is MatMul, FusedMatMul or Gemm of a 16-bit type. It computes in float32, in blocks of blas.Grain rows and
// halfPanel columns, and converts the operands of a block blas.Grain terms at a time: so the workspace is a few blocks
// for each thread, whatever the size of the matrices. A result is rounded once.
type halfProduct struct {
	p           *executor.Prep
	dtype       graph.DType
	gemm        bool
	geometry    matMulShape // without gemm
	transA      bool        // of gemm, as the fields below
	transB      bool
	alpha, beta float32

	halfExtent
	lda, ldb, row, col int
	a, b, bias, y      []byte
	one                [1]blas.Place
	places             []blas.Place
	scratch            []float32
}

// halfExtent says how a product falls into blocks.
type halfExtent struct{ m, n, k, count int }

// products makes the kernel of an operator that halfProduct computes for operands of one 16-bit type, and make for
// others.
func products(make func(*executor.Prep) (executor.Kernel, error)) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		d := p.DType(0)
		if !isHalf(d) || p.Out[0] != d {
			return widened(make)(p)
		}
		for i := range p.In {
			if p.Has(i) && p.DType(i) != d {
				return widened(make)(p)
			}
		}
		if _, err := widened(make)(p); err != nil { // which checks the node
			return nil, err
		}
		return newHalfProduct(p), nil
	}
}

func newHalfProduct(p *executor.Prep) *halfProduct {
	blas.Warm()
	n := p.Node
	k := &halfProduct{p: p, dtype: p.DType(0), gemm: n.Op == "Gemm", alpha: n.Float("alpha", 1),
		beta: n.Float("beta", 1), transA: n.Int("transA", 0) != 0, transB: n.Int("transB", 0) != 0}
	k.geometry.a.transM, k.geometry.a.transBat = k.transA, n.Int("transBatchA", 0) != 0
	k.geometry.b.transM, k.geometry.b.transBat = k.transB, n.Int("transBatchB", 0) != 0
	return k
}

// blocks is the number of blocks.
func (e *halfExtent) blocks() int { return e.count * e.bands() * e.panels() }

func (e *halfExtent) bands() int { return (e.m + blas.Grain - 1) / blas.Grain }

func (e *halfExtent) panels() int { return (e.n + halfPanel - 1) / halfPanel }

// slots is how many blocks are computed at the same time.
func (e *halfExtent) slots(threads int) int {
	if e.count*e.m*e.n*e.k < halfSmall {
		return min(1, e.blocks())
	}
	return min(max(threads, 1), e.blocks())
}

// sizes are the elements of the largest blocks of both operands and of the result.
func (e *halfExtent) sizes() (a, b, c int) {
	rows, cols, terms := min(e.m, blas.Grain), min(e.n, halfPanel), min(e.k, blas.Grain)
	return rows * terms, terms * cols, rows * cols
}

// perSlot is the workspace of a slot, in elements: whole cache lines.
func (e *halfExtent) perSlot() int {
	a, b, c := e.sizes()
	return executor.RoundUp(4*(a+b+c)) / 4
}

// Workspace is that of all slots.
func (k *halfProduct) Workspace(in, _ [][]int) int {
	var e halfExtent
	if k.gemm {
		if len(in[0]) != 2 || len(in[1]) != 2 {
			return 0
		}
		e = halfExtent{in[0][0], in[1][1], in[0][1], 1}
		if k.transA {
			e.m, e.k = e.k, e.m
		}
		if k.transB {
			e.n = in[1][0]
		}
	} else {
		s := matMulShape{a: matrices{transM: k.geometry.a.transM, transBat: k.geometry.a.transBat},
			b: matrices{transM: k.geometry.b.transM, transBat: k.geometry.b.transBat}}
		if s.set(in[0], in[1]) != nil {
			return 0
		}
		e = halfExtent{s.m, s.n, s.k, len(s.places)}
	}
	return executor.RoundUp(4 * e.slots(k.p.Threads) * e.perSlot())
}

// Run multiplies.
func (k *halfProduct) Run(c *executor.Ctx) error {
	a, b, bias := c.In(0), c.In(1), (*executor.Tensor)(nil)
	var y *executor.Tensor
	if k.gemm {
		bias = c.In(2)
		var err error
		if k.m, k.n, k.k, err = gemmDims(c, k.transA, k.transB); err != nil {
			return err
		}
		if k.row, k.col, err = gemmBias(c, k.m, k.n); err != nil {
			return err
		}
		y, k.places = c.Out(0, k.m, k.n), k.one[:]
		k.lda, k.ldb = max(a.Shape[1], 1), max(b.Shape[1], 1)
	} else {
		s := &k.geometry
		if err := s.set(a.Shape, b.Shape); err != nil {
			return err
		}
		y, k.places = c.Out(0, s.shape...), s.places
		k.m, k.n, k.k = s.m, s.n, s.k
		k.transA, k.lda, k.transB, k.ldb = s.a.trans, s.a.ld, s.b.trans, s.b.ld
	}
	if k.count = len(k.places); k.blocks() == 0 {
		return nil
	}
	k.a, k.b, k.y, k.bias = a.Data, b.Data, y.Data, nil
	if bias != nil && k.beta != 0 {
		k.bias = bias.Data
	}
	slots := k.slots(k.p.Threads)
	k.scratch = executor.ScratchOf[float32](c, slots*k.perSlot())
	c.Parallel(slots, 1, k)
	return nil
}

// Range computes the blocks of some slots: of all blocks, each slot has every so manyth.
func (k *halfProduct) Range(lo, hi int) {
	size := k.perSlot()
	slots := len(k.scratch) / size
	for ; lo < hi; lo++ {
		for i := lo; i < k.blocks(); i += slots {
			k.block(i, k.scratch[lo*size:(lo+1)*size])
		}
	}
}

// block computes a block.
func (k *halfProduct) block(i int, scratch []float32) {
	bands, panels := k.bands(), k.panels()
	at := k.places[i/(bands*panels)]
	row, col := i/panels%bands*blas.Grain, i%panels*halfPanel
	rows, cols := min(blas.Grain, k.m-row), min(halfPanel, k.n-col)
	sizeA, sizeB, _ := k.sizes()
	a, b, sum := scratch[:sizeA], scratch[sizeA:sizeA+sizeB], scratch[sizeA+sizeB:][:rows*cols]
	beta := k.begin(sum, row, col, rows, cols)
	for t := 0; t < k.k; t += blas.Grain {
		terms := min(blas.Grain, k.k-t)
		lda := k.load(a, k.a, at.A, k.transA, row, rows, t, terms, k.lda)
		ldb := k.load(b, k.b, at.B, k.transB, t, terms, col, cols, k.ldb)
		blas.Multiply(k.transA, k.transB, rows, cols, terms, k.alpha, a, lda, b, ldb, beta, sum, cols)
		beta = 1
	}
	for r := range rows {
		to := 2 * (at.C + (row+r)*k.n + col)
		narrow(k.dtype, k.y[to:to+2*cols], sum[r*cols:(r+1)*cols])
	}
}

// begin writes the first numbers of a block's sums and returns their factor in the first product.
func (k *halfProduct) begin(sum []float32, row, col, rows, cols int) (beta float32) {
	if k.bias == nil {
		clear(sum)
		return 0
	}
	for r := range rows {
		from, to := 2*((row+r)*k.row+col*k.col), sum[r*cols:(r+1)*cols]
		if k.col == 1 {
			widen(to, k.dtype, k.bias[from:from+2*cols])
			continue
		}
		widen(to[:1], k.dtype, k.bias[from:from+2])
		for j := range to {
			to[j] = to[0]
		}
	}
	if k.k == 0 {
		for i := range sum {
			sum[i] *= k.beta
		}
	}
	return k.beta
}

// load converts a part of a matrix, rows × cols from row and col on, that begins at a place of an operand, and returns
// how far apart its rows, or columns if it is transposed, lie then.
func (k *halfProduct) load(dst []float32, from []byte, at int, trans bool, row, rows, col, cols, ld int) int {
	if trans {
		row, rows, col, cols = col, cols, row, rows
	}
	at += row*ld + col
	if cols == ld { // the rows follow each other
		widen(dst[:rows*cols], k.dtype, from[2*at:][:2*rows*cols])
		return cols
	}
	for r := range rows {
		widen(dst[r*cols:(r+1)*cols], k.dtype, from[2*(at+r*ld):][:2*cols])
	}
	return cols
}
