//go:build !linux || !amd64 || nodl

package mpi

import (
	"context"
	"fmt"

	"memopt/train/collective"
)

// open opens no library in this build.
func open(_ context.Context, o Options) (collective.Group, error) {
	return nil, fmt.Errorf("%s has started %d ranks, and this build of memopt opens no MPI library: it does on Linux "+
		"on amd64", o.Launch.Launcher, o.Launch.Size)
}
