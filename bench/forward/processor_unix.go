//go:build unix

package main

import (
	"syscall"
	"time"
)

// processorTime returns how much time this process has taken on all processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no other errors than bad arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
