//go:build !linux || !amd64 || nodl

package blas

// openLibrary finds no library in this build.
func openLibrary() (*backend, error) { return nil, nil }
