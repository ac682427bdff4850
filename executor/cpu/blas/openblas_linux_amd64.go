//go:build !nodl

package blas

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"memopt/internal/native"
)

// libraryNames are tried in order, as the dynamic linker finds them.
var libraryNames = []string{"libopenblas.so.0", "libopenblas.so"}

// openLibrary opens OpenBLAS. Without a library, the error is nil unless the user asked for one.
func openLibrary() (b *backend, err error) {
	_, err = native.Find("OpenBLAS", "MEMOPT_OPENBLAS", libraryNames,
		func(l *native.Library) (err error) {
			b, err = newOpenBLAS(l)
			return err
		})
	return b, err
}

// newOpenBLAS puts a library to work with one thread per call.
func newOpenBLAS(l *native.Library) (*backend, error) {
	var sgemm, dgemm uintptr
	var setThreads func(n int32)
	var getConfig func() string
	if err := l.Functions("", map[string]any{
		"sgemm_": &sgemm, "dgemm_": &dgemm, "openblas_set_num_threads": &setThreads,
		"openblas_get_config": &getConfig,
	}); err != nil {
		return nil, err
	}
	config := getConfig()
	if strings.Contains(config, "USE64BITINT") {
		return nil, errors.New(l.Path + " takes 64-bit integers")
	}
	l.Note("OpenBLAS", "openblas_get_config")
	setThreads(1)
	b := &backend{name: config, kernels: kernelsOf(config), sgemm: product[float32](sgemm),
		dgemm: product[float64](dgemm)}
	if words := strings.Fields(config); len(words) > 1 {
		b.name = fmt.Sprintf("%s %s", words[0], words[1])
	}
	b.library = b.name
	return b, nil
}

// kernelsOf returns the name of OpenBLAS's kernels, the word before MAX_THREADS in the result of
// openblas_get_config, or "".
func kernelsOf(config string) string {
	before, _, found := strings.Cut(config, " MAX_THREADS")
	if words := strings.Fields(before); found && len(words) > 2 {
		return words[len(words)-1]
	}
	return ""
}

// call holds the arguments of xGEMM for the assembly: it passes all of them by address, as Fortran
// does, so that one piece of code serves both types and no register holds a float. A row-major
// matrix is its transpose in column-major order: the product is Cᵀ = op(B)ᵀ*op(A)ᵀ, and A below is
// the first operand of that, the caller's B.
type call struct {
	fn             uintptr
	a, b, c        unsafe.Pointer
	m, n, k        int64 // the callee reads the lower half
	lda, ldb, ldc  int64
	alpha, beta    unsafe.Pointer
	transA, transB byte
}

// gemmCallABI0 is the address of the assembly that calls fn with the arguments in a call.
var gemmCallABI0 uintptr

// product wraps the address of sgemm_ or dgemm_ as a product function.
func product[T Float](
	fn uintptr,
) func(ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	return func(ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T,
		ldc int) {
		args := call{
			fn: fn, transA: letter(tb), transB: letter(ta), m: int64(n), n: int64(m), k: int64(k),
			a: unsafe.Pointer(unsafe.SliceData(b)), lda: int64(ldb),
			b: unsafe.Pointer(unsafe.SliceData(a)), ldb: int64(lda),
			c: unsafe.Pointer(unsafe.SliceData(c)), ldc: int64(ldc),
			alpha: unsafe.Pointer(&alpha), beta: unsafe.Pointer(&beta),
		}
		native.Call(gemmCallABI0, unsafe.Pointer(&args))
	}
}

func letter(trans bool) byte {
	if trans {
		return 'T'
	}
	return 'N'
}
