package main

import (
	"memopt/cmd/memopt/internal/option"
	"memopt/executor/cuda"
	"memopt/executor/verify"
	"memopt/internal/test/double"
)

// init gives the scripts a backend "double": the CUDA device on a driver double, where kernels can
// be compiled for the host. "double-bare" has no libcublas.
func init() {
	if _, err := double.Compiler(); err != nil {
		return
	}
	for name, bare := range map[string]bool{"double": false, "double-bare": true} {
		if d, err := cuda.New(double.New(double.Options{Memory: 8 << 30, NoLibrary: bare}),
			cuda.Options{}); err == nil {
			option.Backends[name] = verify.On(d)
		}
	}
}
