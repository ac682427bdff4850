//go:build linux && amd64 && !nodl

package mpi_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"memopt/graph"
	"memopt/train/collective"
)

// report prints a line whole, so that those of several ranks do not mix.
func report(g collective.Group, format string, args ...any) {
	os.Stdout.WriteString(fmt.Sprintf("rank %d: ", g.Rank()) + fmt.Sprintf(format, args...) + "\n")
}

// reduce sums a buffer.
func reduce(g collective.Group, n int) error {
	t, err := g.Start(collective.AllReduce, graph.Float32, make([]byte, 4*n))
	if err != nil {
		return err
	}
	return g.Wait(t)
}

// abort: one rank fails while all others wait for it.
func abort(g collective.Group) error {
	if err := reduce(g, 1000); err != nil {
		return err
	}
	if g.Rank() == 1 {
		g.Abort(42)
	}
	err := reduce(g, 1000)
	report(g, "is still there: %v", err)
	return err
}

// vanish: one rank ends without a word.
func vanish(g collective.Group) error {
	if err := reduce(g, 1000); err != nil {
		return err
	}
	if g.Rank() == 1 {
		os.Exit(5)
	}
	return reduce(g, 1000)
}

// stopped: the last rank stops itself, in the middle of operations where the environment says so.
func stopped(g collective.Group) error {
	if err := reduce(g, 1000); err != nil {
		return err
	}
	last := g.Rank() == g.Size()-1
	n := 1000
	if os.Getenv("MEMOPT_MPI_MIDST") != "" {
		n = 60 << 20
		if last {
			go func() {
				time.Sleep(30 * time.Millisecond) // the sum of 240 MiB takes longer
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			}()
		}
	} else if last {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	err := reduce(g, n)
	report(g, "%v", err)
	if g.Rank() == 0 {
		time.Sleep(3 * time.Second) // the others may report, too
		g.Abort(8)
	}
	time.Sleep(time.Minute)
	return err
}

// late: the last rank is alive and comes to no operation.
func late(g collective.Group) error {
	if g.Rank() == g.Size()-1 {
		time.Sleep(time.Minute)
	}
	err := reduce(g, 1000)
	report(g, "%v", err)
	if g.Rank() == 0 {
		time.Sleep(time.Second)
		g.Abort(8)
	}
	time.Sleep(time.Minute)
	return err
}

// differ: ranks call different things.
func differ(g collective.Group) error {
	err := reduce(g, 100+g.Rank())
	report(g, "%v", err)
	if again := reduce(g, 1); again != err {
		return errors.New("the error does not stay")
	}
	return nil // Close waits for nobody
}

// signals: Go's handling of signals is as it was, once MPI has started.
func signals(g collective.Group) error {
	if err := reduce(g, 1000); err != nil {
		return err
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGUSR1, unix.SIGTERM)
	for _, s := range []unix.Signal{unix.SIGUSR1, unix.SIGTERM} {
		for range 200 { // some may go to threads that MPI has started
			_ = syscall.Kill(os.Getpid(), s)
			if got := <-caught; got != s {
				return fmt.Errorf("caught %v, wanted %v", got, s)
			}
		}
	}
	if err := nilPanics(); err != nil {
		return err
	}
	for range 20 {
		runtime.GC() // stops all threads, by signals where it must
		if err := reduce(g, 100_000); err != nil {
			return err
		}
	}
	report(g, "signals are Go's")
	return nil
}

// nilPanics reads through a nil pointer, which is a signal that Go makes a panic of.
func nilPanics() (err error) {
	defer func() {
		if recover() == nil {
			err = errors.New("a nil pointer does not panic")
		}
	}()
	var p *bytes.Buffer
	return fmt.Errorf("read %d", p.Len())
}

// allocs: operations allocate nothing once they have been done.
func allocs(g collective.Group) error {
	buf := make([]byte, 1<<20)
	mine, all := make([]byte, 8), make([]byte, 8*g.Size())
	n := testing.AllocsPerRun(50, func() {
		for op := range collective.AllGather + 1 {
			t, err := g.Start(op, graph.Float32, buf)
			if err == nil {
				err = g.Wait(t)
			}
			if err != nil {
				panic(err)
			}
		}
		if g.Exchange(mine, all) != nil || g.Broadcast(0, mine) != nil {
			panic("a message is lost")
		}
	})
	report(g, "%v allocations, %d bytes of staging", n, g.StagingBytes())
	return nil
}
