//go:build linux && amd64 && !nodl

package mpi_test

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"memopt/graph"
	"memopt/train/collective"
)

// cpu is the processor time that this process has taken.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bench prints what sums of a buffer take.
func bench(g collective.Group) error {
	bytes, err := strconv.Atoi(os.Getenv("MEMOPT_MPI_BYTES"))
	if err != nil {
		return err
	}
	buf := bytesOf(bytes/4, func() float32 { return 0 })
	var times []time.Duration
	used := time.Duration(0)
	for i := range 24 {
		if err := g.Exchange(nil, nil); err != nil { // all begin together
			return err
		}
		before, since := cpu(), time.Now()
		t, err := g.Start(collective.AllReduce, graph.Float32, buf)
		if err == nil {
			err = g.Wait(t)
		}
		if err != nil {
			return err
		}
		if i >= 4 { // memory is touched, and MPI has met the others
			times = append(times, time.Since(since))
			used += cpu() - before
		}
	}
	sum := time.Duration(0)
	for _, d := range times {
		sum += d
	}
	n := float64(len(times))
	seconds := sum.Seconds() / n
	moved := 2 * float64(g.Size()-1) / float64(g.Size()) * float64(bytes)
	report(g, "%d bytes: %.2f ms, %.2f GB/s of the buffer, %.2f GB/s moved, %.2f ms of processor", bytes, seconds*1e3,
		float64(bytes)/seconds/1e9, moved/seconds/1e9, used.Seconds()/n*1e3)
	return nil
}
