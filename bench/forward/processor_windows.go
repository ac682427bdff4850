package main

import (
	"syscall"
	"time"
)

// processorTime returns how much time this process has taken on all processors.
func processorTime() time.Duration {
	process, err := syscall.GetCurrentProcess()
	if err != nil {
		panic(err)
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(process, &created, &exited, &kernel, &user); err != nil {
		panic(err) // it has no other errors than bad arguments
	}
	return ticks(kernel) + ticks(user)
}

// ticks reads a duration, which Windows counts in units of 100 ns.
func ticks(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
