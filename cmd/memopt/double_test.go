package main

import (
	"memopt/executor/cuda"
	"memopt/executor/cuda/double"
)

// init gives the scripts a backend "double": the CUDA device on a driver double, where kernels can be compiled for the host.
func init() {
	if _, err := double.Compiler(); err != nil {
		return
	}
	if d, err := cuda.New(double.New(double.Options{Memory: 8 << 30}), cuda.Options{}); err == nil {
		backends["double"] = d
	}
}
