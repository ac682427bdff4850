package blas

import (
	"sync"
	"unsafe"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// newGonum returns the backend in Go; why says why no library is used, if one was wanted.
func newGonum(why error) *backend {
	g := &backend{name: "gonum", sgemm: gonumMultiply[float32], dgemm: gonumMultiply[float64]}
	if why != nil {
		g.name += " (" + why.Error() + ")"
	}
	return g
}

// Gonum starts goroutines of its own for results of 4 or more blocks of 64×64. Pieces of C that are
// smaller stay in the calling goroutine. The sum is cut so that a piece of B stays in the cache.
const (
	gonumRows = 64
	gonumCols = 192
	gonumSum  = 256
)

// gonumMultiply computes a product piece by piece.
func gonumMultiply[T Float](ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	if !finite(ta, m, k, a, lda) || !finite(tb, k, n, b, ldb) {
		// Gonum leaves out products with 0, which are NaN for infinities and NaN.
		plainMultiply(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	if tb {
		gonumTransposed(ta, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	for j := 0; j < n; j += gonumCols {
		keep := beta
		for l := 0; l < k; l += gonumSum {
			for i := 0; i < m; i += gonumRows {
				gonumPiece(ta, min(gonumRows, m-i), min(gonumCols, n-j), min(gonumSum, k-l),
					alpha, a[place(ta, i, l, lda):], lda, b[l*ldb+j:], ldb, keep, c[i*ldc+j:], ldc)
			}
			keep = 1
		}
	}
}

// gonumTransposedSum is the length of the sums of a piece whose B is transposed.
const gonumTransposedSum = 64

// turnedPiece is memory for a transposed piece of either type.
type turnedPiece [gonumTransposedSum * gonumCols]float64

// pieces is a pool for all goroutines: as many pieces as have been in use at once. They are kept,
// so that later products do not allocate.
type pieces struct {
	mu   sync.Mutex
	free []*turnedPiece
}

var spare pieces

func (p *pieces) take() *turnedPiece {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free) - 1
	if n < 0 {
		return new(turnedPiece)
	}
	piece := p.free[n]
	p.free = p.free[:n]
	return piece
}

func (p *pieces) give(piece *turnedPiece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, piece)
}

// gonumTransposed computes a product with op(B) = Bᵀ, which it transposes piece by piece: gonum
// would compute scalar products of rows, in an order that depends on the rows' addresses.
func gonumTransposed[T Float](ta bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	buf := spare.take()
	defer spare.give(buf)
	turned := unsafe.Slice((*T)(unsafe.Pointer(buf)), len(buf))
	for j := 0; j < n; j += gonumCols {
		cols, keep := min(gonumCols, n-j), beta
		for l := 0; l < k; l += gonumTransposedSum {
			sum := min(gonumTransposedSum, k-l)
			for q := range cols {
				for p, v := range b[(j+q)*ldb+l:][:sum] {
					turned[p*cols+q] = v
				}
			}
			for i := 0; i < m; i += gonumRows {
				gonumPiece(ta, min(gonumRows, m-i), cols, sum, alpha, a[place(ta, i, l, lda):], lda, turned, cols, keep,
					c[i*ldc+j:], ldc)
			}
			keep = 1
		}
	}
}

func gonumPiece[T Float](ta bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	var g gonum.Implementation
	if unsafe.Sizeof(alpha) == 4 {
		g.Sgemm(transpose(ta), blas.NoTrans, m, n, k, float32(alpha), as[float32](a), lda, as[float32](b), ldb,
			float32(beta), as[float32](c), ldc)
		return
	}
	g.Dgemm(transpose(ta), blas.NoTrans, m, n, k, float64(alpha), as[float64](a), lda, as[float64](b), ldb,
		float64(beta), as[float64](c), ldc)
}

func transpose(trans bool) blas.Transpose {
	if trans {
		return blas.Trans
	}
	return blas.NoTrans
}

// place returns where row i, column j of op(M) lies.
func place(trans bool, i, j, ld int) int {
	if trans {
		i, j = j, i
	}
	return i*ld + j
}

// finite reports whether a matrix has neither infinities nor NaN.
func finite[T Float](trans bool, rows, cols int, a []T, ld int) bool {
	if trans {
		rows, cols = cols, rows
	}
	var zeros T
	for i := range rows {
		for _, v := range a[i*ld : i*ld+cols] {
			zeros += v - v // NaN for both
		}
	}
	return zeros == 0
}

// plainMultiply computes a product term by term.
func plainMultiply[T Float](ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	scale(m, n, beta, c, ldc)
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		for l := range k {
			f := alpha * a[place(ta, i, l, lda)]
			for j := range row {
				row[j] += f * b[place(tb, l, j, ldb)]
			}
		}
	}
}
