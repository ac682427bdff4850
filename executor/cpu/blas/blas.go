// Package blas multiplies float32 and float64 matrices in row-major order.
//
// On Linux on amd64, OpenBLAS computes products if the machine has it: the library is opened at run
// time, without cgo. Otherwise gonum's Go code computes them. The environment variable
// MEMOPT_OPENBLAS gives the path of a library to use, or "off"; a build with the tag nodl never
// opens one. If there are both oneDNN, which package dnnl opens, and AVX-512, oneDNN computes
// products in float32.
//
// Every call computes in the calling goroutine alone, and calls may run at the same time. A Gemm
// cuts a product into tiles for several threads, always at the same places, so that results have
// the same bits whatever the number of threads; and products of some of the rows, or of some of the
// terms of each sum, have those of the whole (Grain).
package blas

import (
	"fmt"
	"sync"
	"unsafe"

	"memopt/executor/cpu/dnnl"
)

// Float lists the element types of matrices.
type Float interface{ float32 | float64 }

// backend computes products of checked operands: m, n, k and alpha are not 0.
type backend struct {
	name string
	// library is OpenBLAS's name and version, kernels those that it has chosen; "" without it.
	library, kernels string

	sgemm func(ta, tb bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32,
		c []float32, ldc int)
	dgemm func(ta, tb bool, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64,
		c []float64, ldc int)
}

// chosen is the backend in use; nil before the first use.
var (
	chosen *backend
	choose sync.Once
)

func active() *backend {
	choose.Do(func() {
		var why error
		if chosen, why = openLibrary(); chosen == nil {
			chosen = newGonum(why)
		}
		if dnnl.FastProducts() {
			chosen = withOneDNN(chosen)
		}
	})
	return chosen
}

// withOneDNN returns a backend whose products in float32 are oneDNN's.
func withOneDNN(b *backend) *backend {
	return &backend{name: dnnl.Name() + " for float32, " + b.name + " for float64", library: b.library,
		kernels: b.kernels, sgemm: dnnl.Sgemm, dgemm: b.dgemm}
}

// OpenBLAS returns the library's name and version and which of its kernels it has chosen for this
// processor, such as "Haswell"; "" where the library is not there.
func OpenBLAS() (version, kernels string) { return active().library, active().kernels }

var warm sync.Once

// Warm opens the library and makes it allocate the memory that its first call takes.
func Warm() {
	warm.Do(func() {
		const n = 256
		a := make([]float32, n*n)
		Sgemm(false, false, n, n, n, 1, a, n, a, n, 0, make([]float32, n*n), n)
	})
}

// Sgemm computes C = alpha*op(A)*op(B) + beta*C in the calling goroutine. op(A) has m rows and k
// columns, op(B) k rows and n columns; op transposes if transA or transB asks for it. Rows of the
// matrices as they lie in memory start lda, ldb and ldc elements apart. C must not overlap A or B.
//
// With beta 0, C is written and not read. With alpha 0 or k 0, A and B are not read. Everything
// else follows IEEE arithmetic: a zero times an infinity is NaN.
func Sgemm(
	transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32,
	c []float32, ldc int,
) {
	if prepare(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) {
		active().sgemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	}
}

// Dgemm is Sgemm for float64.
func Dgemm(
	transA, transB bool, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64,
	c []float64, ldc int,
) {
	if prepare(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) {
		active().dgemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
	}
}

// Multiply is Sgemm or Dgemm.
func Multiply[T Float](
	transA, transB bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int,
) {
	if unsafe.Sizeof(alpha) == 4 {
		Sgemm(transA, transB, m, n, k, float32(alpha), as[float32](a), lda, as[float32](b), ldb, float32(beta),
			as[float32](c), ldc)
		return
	}
	Dgemm(transA, transB, m, n, k, float64(alpha), as[float64](a), lda, as[float64](b), ldb, float64(beta),
		as[float64](c), ldc)
}

// as views a slice of T, which has U's size, as a slice of U.
func as[U, T Float](s []T) []U {
	return unsafe.Slice((*U)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// prepare checks the operands and reports whether there is something to multiply; if not,
// it has computed beta*C.
func prepare[T Float](ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) bool {
	if m < 0 || n < 0 || k < 0 {
		panic(fmt.Sprintf("blas: product of %d×%d and %d×%d", m, k, k, n))
	}
	if m == 0 || n == 0 {
		return false
	}
	checkMatrix("C", false, m, n, len(c), ldc)
	if k == 0 || alpha == 0 {
		scale(m, n, beta, c, ldc)
		return false
	}
	checkMatrix("A", ta, m, k, len(a), lda)
	checkMatrix("B", tb, k, n, len(b), ldb)
	return true
}

// checkMatrix panics if a matrix is not inside its slice: C code would not.
func checkMatrix(name string, trans bool, rows, cols, length, ld int) {
	if trans {
		rows, cols = cols, rows
	}
	if ld < cols || length < (rows-1)*ld+cols || ld > maxDim || rows > maxDim {
		panic(fmt.Sprintf("blas: matrix %s of %d×%d with rows %d apart in %d elements", name, rows, cols, ld, length))
	}
}

// maxDim is the largest size that OpenBLAS's 32-bit interface takes.
const maxDim = 1<<31 - 1

// scale computes C = beta*C.
func scale[T Float](m, n int, beta T, c []T, ldc int) {
	for i := range m {
		row := c[i*ldc : i*ldc+n]
		switch beta {
		case 0:
			clear(row)
		case 1:
		default:
			for j := range row {
				row[j] *= beta
			}
		}
	}
}
