//go:build !nodl

package driver

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// mostArgs is the most arguments of any function that is called: cublasGemmStridedBatchedEx has 23.
const mostArgs = 24

// opensLibraries tells whether this build opens C libraries.
const opensLibraries = true

// call is a call of a C function whose arguments and result are integers and addresses.
type call struct {
	fn     uintptr
	pre    uintptr // called with ctx right before, on the same thread; 0 for no such call
	ctx    uintptr
	result uintptr
	args   [mostArgs]uintptr
}

// enterABI0 is the address of the assembly that makes a call.
var enterABI0 uintptr

// cgocall runs a C function on a thread's own stack, and lets other goroutines run meanwhile.
// purego.SyscallN passes fewer arguments, and it cannot make two calls on the same thread.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// do makes the call. Addresses in args must be of memory that does not move: of the heap, or
// outside Go.
func (c *call) do(args ...uintptr) uintptr {
	copy(c.args[:], args)
	cgocall(enterABI0, unsafe.Pointer(c))
	return c.result
}

// openLibrary opens the first of the named libraries that is there.
func openLibrary(names []string) (uintptr, error) {
	// The text of an error belongs to the thread that the call was made on.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all []error
	for _, name := range names {
		lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err == nil {
			return lib, nil
		}
		all = append(all, err)
	}
	return 0, errors.Join(all...)
}

// symbol returns the address of a function of a library.
func symbol(lib uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(lib, name)
}
