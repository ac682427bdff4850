//go:build !nodl

package native

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"

	"memopt/internal/library"
)

// Library is an open library.
type Library struct {
	Path   string
	handle uintptr
}

// Find opens a library, which messages call what: the one whose path is in the environment variable,
// no library if that says "off", else the first of names that the dynamic linker finds. use sets it
// up. If no library is found, or use accepts no library, Find reports false, with an error if the user
// named a library. Those that were not taken are noted in package library.
func Find(what, variable string, names []string, use func(*Library) error) (bool, error) {
	path := os.Getenv(variable)
	try := func(name string) error {
		err := open(name, use)
		if err != nil {
			library.Refuse(what, name, err)
		}
		return err
	}
	switch path {
	case "off":
		return false, nil
	case "":
		for _, name := range names {
			if try(name) == nil {
				return true, nil
			}
		}
		return false, nil
	}
	err := try(path)
	return err == nil, err
}

// open opens a library that starts no threads of its own, and uses it.
func open(path string, use func(*Library) error) error {
	defer oneThread()()
	// The text of an error belongs to the thread that made the call.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return err
	}
	return use(&Library{path, handle})
}

// Note lists the library as opened, under a name; function is the name of one of its functions.
func (l *Library) Note(name, function string) {
	if address, err := purego.Dlsym(l.handle, function); err == nil {
		library.Note(name, l.Path, address)
	}
}

// Functions looks functions up by name, each behind prefix. A target is a pointer to a Go func,
// which then calls the function, or to an uintptr, which gets its address.
func (l *Library) Functions(prefix string, targets map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(targets)) { // an error names the first one
		target := targets[name]
		address, err := purego.Dlsym(l.handle, prefix+name)
		if err != nil {
			return err
		}
		if p, ok := target.(*uintptr); ok {
			*p = address
		} else {
			purego.RegisterFunc(target, address)
		}
	}
	return nil
}

// oneThread keeps libraries from starting threads of their own when they are opened: OpenBLAS, and
// libraries that use OpenMP, read variables then. The returned function restores the environment.
func oneThread() (restore func()) {
	names := [...]string{"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}
	var old [len(names)]string
	var had [len(names)]bool
	for i, name := range names {
		old[i], had[i] = os.LookupEnv(name)
		os.Setenv(name, "1")
	}
	return func() {
		for i, name := range names {
			if had[i] {
				os.Setenv(name, old[i])
			} else {
				os.Unsetenv(name)
			}
		}
	}
}

// Text returns the C string at an address.
func Text(at uintptr) string {
	start := *(*unsafe.Pointer)(unsafe.Pointer(&at))
	n := 0
	for *(*byte)(unsafe.Add(start, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(start), n))
}

// Call runs a function in C's calling convention on a thread's own stack, with one argument, and
// lets other goroutines run meanwhile. arg may lie on the goroutine's stack, which does not move
// during a call.
//
// purego.SyscallN would do as well, except that its pool of argument blocks sometimes makes a call
// allocate.
//
//go:linkname Call runtime.cgocall
//go:noescape
func Call(fn uintptr, arg unsafe.Pointer) int32
