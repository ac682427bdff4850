//go:build !nodl

package blas

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libraryNames are tried in order, as the dynamic linker finds them.
var libraryNames = []string{"libopenblas.so.0", "libopenblas.so"}

// openLibrary opens OpenBLAS. Without a library, the error is nil unless the user asked for one.
func openLibrary() (*backend, error) {
	path := os.Getenv("MEMOPT_OPENBLAS")
	switch path {
	case "off":
		return nil, nil
	case "":
		for _, name := range libraryNames {
			if b, err := openAt(name); err == nil {
				return b, nil
			}
		}
		return nil, nil
	}
	return openAt(path)
}

// openAt opens one library and puts it to work with one thread per call.
func openAt(path string) (*backend, error) {
	defer oneThread()()
	// The text of an error belongs to the thread that the call was made on.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	var fn [4]uintptr
	for i, name := range []string{"sgemm_", "dgemm_", "openblas_set_num_threads", "openblas_get_config"} {
		if fn[i], err = purego.Dlsym(lib, name); err != nil {
			return nil, err
		}
	}
	config := callForText(fn[3])
	if strings.Contains(config, "USE64BITINT") {
		return nil, errors.New(path + " takes 64-bit integers")
	}
	purego.SyscallN(fn[2], 1)
	b := &backend{name: config, sgemm: native[float32](fn[0]), dgemm: native[float64](fn[1])}
	if words := strings.Fields(config); len(words) > 1 {
		b.name = fmt.Sprintf("%s %s", words[0], words[1])
	}
	return b, nil
}

// oneThread keeps OpenBLAS from starting threads of its own when it is opened. The returned function
// restores the environment.
func oneThread() (restore func()) {
	const name = "OPENBLAS_NUM_THREADS"
	old, had := os.LookupEnv(name)
	os.Setenv(name, "1")
	return func() {
		if had {
			os.Setenv(name, old)
		} else {
			os.Unsetenv(name)
		}
	}
}

// callForText calls a C function that returns a string.
func callForText(fn uintptr) string {
	var text func() string
	purego.RegisterFunc(&text, fn)
	return text()
}

// call holds the arguments of xGEMM for the assembly: it passes all by address, as
// Fortran does, so that one piece of code serves both types and no register holds a float.
// A matrix in rows is its transpose in columns: the product is Cᵀ = op(B)ᵀ*op(A)ᵀ, and A
// below is the first operand of that, the caller's B.
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

// cgocall runs a C function on a thread's own stack, and lets other goroutines run meanwhile.
// arg may lie on the goroutine's stack, which does not move during a call.
//
// purego.SyscallN would do as well, were it not for its pool of argument blocks, from which
// a call sometimes has to allocate.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// native makes a product of an address of sgemm_ or dgemm_.
func native[T Float](fn uintptr) func(ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	return func(ta, tb bool, m, n, k int, alpha T, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
		args := call{
			fn: fn, transA: letter(tb), transB: letter(ta), m: int64(n), n: int64(m), k: int64(k),
			a: unsafe.Pointer(unsafe.SliceData(b)), lda: int64(ldb),
			b: unsafe.Pointer(unsafe.SliceData(a)), ldb: int64(lda),
			c: unsafe.Pointer(unsafe.SliceData(c)), ldc: int64(ldc),
			alpha: unsafe.Pointer(&alpha), beta: unsafe.Pointer(&beta),
		}
		cgocall(gemmCallABI0, unsafe.Pointer(&args))
	}
}

func letter(trans bool) byte {
	if trans {
		return 'T'
	}
	return 'N'
}
