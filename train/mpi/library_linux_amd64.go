//go:build !nodl

package mpi

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"memopt/internal/library"
	"memopt/internal/native"
)

// function is a function of MPI.
type function int

const (
	fnGetLibraryVersion function = iota
	fnInitThread
	fnCommSetErrhandler
	fnCommRank
	fnCommSize
	fnErrorString
	fnIsend
	fnIrecv
	fnTestall
	fnIallreduce
	fnIreduce
	fnIbcast
	fnCancel
	fnAbort
	fnFinalize
	numFunctions
)

var functionNames = [numFunctions]string{
	fnGetLibraryVersion: "MPI_Get_library_version",
	fnInitThread:        "MPI_Init_thread",
	fnCommSetErrhandler: "MPI_Comm_set_errhandler",
	fnCommRank:          "MPI_Comm_rank",
	fnCommSize:          "MPI_Comm_size",
	fnErrorString:       "MPI_Error_string",
	fnIsend:             "MPI_Isend",
	fnIrecv:             "MPI_Irecv",
	fnTestall:           "MPI_Testall",
	fnIallreduce:        "MPI_Iallreduce",
	fnIreduce:           "MPI_Ireduce",
	fnIbcast:            "MPI_Ibcast",
	fnCancel:            "MPI_Cancel",
	fnAbort:             "MPI_Abort",
	fnFinalize:          "MPI_Finalize",
}

// lib is an open MPI library.
type lib struct {
	*abi
	version   string // as messages name it
	path      string // of the file
	functions [numFunctions]uintptr
	values    [numHandles]uintptr
}

// call is a call of a C function whose arguments and result are integers and addresses.
type call struct {
	fn     uintptr
	result uintptr
	args   [8]uintptr
}

// callMPIABI0 is the address of the assembly that makes a call.
var callMPIABI0 uintptr

// call calls a function and returns its error code. Addresses in args must be of memory that does
// not move: of the heap, or outside Go.
func (l *lib) call(f function, args ...uintptr) int32 {
	c := call{fn: l.functions[f]}
	copy(c.args[:], args)
	native.Call(callMPIABI0, unsafe.Pointer(&c))
	return int32(c.result)
}

// do calls a function and makes an error of its code.
func (l *lib) do(f function, args ...uintptr) error {
	code := l.call(f, args...)
	if code == 0 {
		return nil
	}
	text, n := make([]byte, maxErrorBytes), new(int32)
	if l.call(fnErrorString, uintptr(code), address(text), uintptr(unsafe.Pointer(n))) != 0 {
		*n = 0
	}
	err := &Error{functionNames[f], int(code), strings.TrimSpace(string(text[:*n]))}
	runtime.KeepAlive(text)
	return err
}

// address is that of a buffer.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// openLibrary opens the library at a path, or else the first of a kind that the dynamic linker finds.
// The caller is locked to its thread: the text of an error belongs to it.
func openLibrary(path string, kind Kind) (*lib, error) {
	if path != "" {
		l, err := openAt(path)
		if err != nil {
			library.Refuse("MPI", path, err)
		}
		return l, err
	}
	var names []string
	for i := range abis {
		if kind == abis[i].kind || kind == Either {
			names = append(names, abis[i].names...)
		}
	}
	var errs []error
	for _, name := range names {
		l, err := openAt(name)
		if err == nil && (l.kind == kind || kind == Either) {
			return l, nil
		}
		if err == nil {
			err = fmt.Errorf("%s is %s", l.path, l.version)
		}
		library.Refuse("MPI", name, err)
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no library of %v can be opened: %w; install the one that the launcher belongs to, or "+
		"name its file", kind, errors.Join(errs...))
}

// openAt opens a library. Its symbols are for all, as its own parts, which it opens by itself, look
// for them there.
func openAt(path string) (*lib, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	l := &lib{path: path}
	for f, name := range functionNames {
		if l.functions[f], err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("%s is no MPI library: it has no function %s", path, name)
		}
	}
	text, n := make([]byte, maxVersionBytes), new(int32)
	l.call(fnGetLibraryVersion, address(text), uintptr(unsafe.Pointer(n)))
	version := native.Text(address(text))
	runtime.KeepAlive(text)
	if l.abi, err = abiOf(version); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l.version = shortVersion(version)
	for i, h := range l.handles {
		l.values[i] = h.value
		if h.symbol != "" {
			if l.values[i], err = purego.Dlsym(handle, h.symbol); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", path, l.version, err)
			}
		}
	}
	l.path = library.Note("MPI", path, l.functions[fnInitThread]).Path
	return l, nil
}

// start initializes the library.
func (l *lib) start() error {
	provided := new(int32)
	if err := l.do(fnInitThread, 0, 0, threadFunneled, uintptr(unsafe.Pointer(provided))); err != nil {
		return err
	}
	return l.do(fnCommSetErrhandler, l.values[commWorld], l.values[errorsReturn])
}

// world returns the number of this rank and of all.
func (l *lib) world() (rank, size int, err error) {
	n := new([2]int32)
	err = errors.Join(l.do(fnCommRank, l.values[commWorld], uintptr(unsafe.Pointer(&n[0]))),
		l.do(fnCommSize, l.values[commWorld], uintptr(unsafe.Pointer(&n[1]))))
	return int(n[0]), int(n[1]), err
}
