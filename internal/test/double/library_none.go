//go:build !linux || !(amd64 || arm64) || nodl

package double

import "errors"

type library struct{}

// ErrNoCompiler says that kernels cannot be compiled for the host.
var ErrNoCompiler = errors.New("this build opens no C libraries, and the double's kernels lie in such")

// Compiler returns ErrNoCompiler.
func Compiler() (string, error) { return "", ErrNoCompiler }

func load(string) (*library, error)                     { return nil, ErrNoCompiler }
func (*library) function(string) (func(*launch), error) { return nil, ErrNoCompiler }
func reserve(int) (uintptr, error)                      { return 0, ErrNoCompiler }
func release(uintptr, int)                              {}
