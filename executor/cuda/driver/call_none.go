//go:build !linux || !amd64 || nodl

package driver

import "errors"

const mostArgs = 24

// opensLibraries tells whether this build opens C libraries.
const opensLibraries = false

type call struct {
	fn, pre, ctx, result uintptr
	args                 [mostArgs]uintptr
}

// do is never called: no library opens in this build.
func (c *call) do(...uintptr) uintptr { return 0 }

// openLibrary finds no library in this build.
func openLibrary([]string) (uintptr, error) {
	return 0, errors.New("this build of memopt opens no C libraries (it is for linux on amd64 without the build tag " +
		"nodl that they are opened)")
}

func symbol(uintptr, string) (uintptr, error) { return 0, errors.New("no library is open") }
