//go:build !nodl

package dnnl

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/cpu"

	"memopt/internal/native"
)

// FastProducts reports whether there is a library whose products of matrices are quick on this
// processor: they were measured with AVX-512.
func FastProducts() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && Available()
}

// sgemmCall holds the arguments of dnnl_sgemm for the assembly.
type sgemmCall struct {
	fn             uintptr
	transA, transB int64
	m, n, k        int64
	a, b, c        unsafe.Pointer
	lda, ldb, ldc  int64
	alpha, beta    float32
}

// sgemmABI0 is the address of the assembly.
var sgemmABI0 uintptr

// Sgemm computes C = alpha*op(A)*op(B) + beta*C in the calling goroutine, for matrices in rows that
// lie in their slices. With beta 0, C is not read. There must be a library.
func Sgemm(
	transA, transB bool, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32,
	c []float32, ldc int,
) {
	call := sgemmCall{fn: lib.sgemm, transA: letter(transA), transB: letter(transB), m: int64(m), n: int64(n),
		k: int64(k),
		a: unsafe.Pointer(unsafe.SliceData(a)), b: unsafe.Pointer(unsafe.SliceData(b)),
		c:   unsafe.Pointer(unsafe.SliceData(c)),
		lda: int64(lda), ldb: int64(ldb), ldc: int64(ldc), alpha: alpha, beta: beta}
	if status := native.Call(sgemmABI0, unsafe.Pointer(&call)); status != 0 {
		panic(fmt.Sprintf("oneDNN: dnnl_sgemm of %d×%d and %d×%d ends with status %d", m, k, k, n, status))
	}
}

func letter(trans bool) int64 {
	if trans {
		return 'T'
	}
	return 'N'
}
