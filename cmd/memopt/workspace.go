package main

import (
	"memopt/executor"
)

// workspaces asks a backend what its kernels need besides their operands: a plan to a budget counts
// it.
func (a *app) workspaces(l *loaded, name string) ([]int64, error) {
	d, err := backend(name)
	if err != nil {
		return nil, err
	}
	return executor.Workspaces(a.ctx, l.Model, l.types, d, executor.Options{Dims: l.dims, Threads: a.global.threads})
}
