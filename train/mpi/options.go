package mpi

import (
	"context"
	"errors"
	"time"

	"memopt/train/collective"
)

// Options say how a group is opened.
type Options struct {
	Launch  Launch        // the result of Find
	Library string        // the file of the MPI library; "" for the launcher's kind of library
	Exact   bool          // sums in the order of the ranks, as collective.Local makes them; else as MPI does
	Timeout time.Duration // of an operation, and of Open; 0 means no timeout
	Log     func(string)  // gets a line on the opened library; nil means no log
}

// Open joins the ranks of a launch: all of them call it, and it returns when all have. A process
// without launcher, or alone, gets a group of its own without MPI. One process opens one group in its
// life, as MPI starts once.
//
// The goroutine that makes the library's calls needs a processor of Go's scheduler for itself
// (GOMAXPROCS) or waits for one until a computation is interrupted, 10 ms and more: Open adds one.
func Open(ctx context.Context, o Options) (collective.Group, error) {
	if o.Launch.Size < 1 || o.Launch.Rank < 0 || o.Launch.Rank >= o.Launch.Size {
		return nil, errors.New("mpi: Options.Launch is not a result of Find")
	}
	if o.Launch.Size == 1 {
		return collective.Local(1)[0], nil
	}
	return open(ctx, o)
}
