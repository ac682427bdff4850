// Package npz stub.
package npz

import "memopt/executor"

type Array struct {
	Name   string
	Tensor *executor.Tensor
}

func Read(path string) ([]Array, error) { return nil, nil }
