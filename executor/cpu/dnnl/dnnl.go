// Package dnnl computes convolutions and their gradients in float32 with oneDNN, if the machine has
// that library: on Linux on amd64 it is opened at run time, without cgo. The environment variable
// MEMOPT_DNNL gives the path of a library to use, or "off"; a build with the tag nodl never opens
// one.
//
// A Conv is cut into pieces, always at the same places, and each piece computes in the calling
// thread alone, so that results have the same bits whatever the number of threads. Operands that
// oneDNN wants in its own layouts are copied piece by piece into the caller's workspace; the
// library takes no memory of its own for operands.
//
// The library's interface is described in oneDNN's developer guide, "oneDNN C API", version 2.6.
package dnnl

import "sync"

var (
	opening sync.Once
	opened  bool
	name    string
)

// Available reports whether there is a library, which the first call opens.
func Available() bool {
	opening.Do(func() {
		var err error
		if name, err = openLibrary(); err != nil {
			name = "none (" + err.Error() + ")"
		} else if name == "" {
			name = "none"
		} else {
			opened = true
		}
	})
	return opened
}

// Name describes the library in use: "oneDNN 2.6.3" or "none", with the reason if a library was
// asked for and cannot be used.
func Name() string {
	Available()
	return name
}
