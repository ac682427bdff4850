//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"syscall"
	"time"
)

// limits is what a command line may take.
type limits struct {
	run    time.Duration // of processor; then it is interrupted
	end    time.Duration // of processor, to end once it is interrupted
	wait   time.Duration // on the clock, where a line waits in place of computing
	memory uint64        // bytes more than when it started
}

// defaultLimits bear with a busy machine, as time of the processor does.
var defaultLimits = limits{run: 5 * time.Second, end: 5 * time.Second, wait: 2 * time.Minute, memory: 1 << 30}

// watchedEnd is how a line ended, and whether it was interrupted.
type watchedEnd struct {
	ended
	stopped bool
	took    time.Duration
}

// watch runs a line, interrupts it after a while, and gives up on one that does not end or takes
// too much memory. A line that is given up on still runs: the process should end.
func (l limits) watch(line func(context.Context) ended) (watchedEnd, *finding) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan ended, 1)
	go func() { done <- line(ctx) }()
	start, clock, memory := cpuTime(), time.Now(), memoryInUse()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	out := watchedEnd{}
	for {
		select {
		case out.ended = <-done:
			out.took = cpuTime() - start
			return out, nil
		case <-tick.C:
		}
		took, waited := cpuTime()-start, time.Since(clock)
		now := memoryInUse()
		switch {
		case now > memory+l.memory:
			stacks := allStacks()
			return out, &finding{"memory", "more than allowed at " + busyAt(stacks),
				fmt.Sprintf("%d MiB more than at the start\n%s", (now-memory)>>20, stacks)}
		case took > l.run+l.end || waited > l.wait+l.wait/2:
			stacks := allStacks()
			return out, &finding{"hang", "deaf at " + busyAt(stacks),
				fmt.Sprintf("after %v of processor and %v\n%s", took, waited, stacks)}
		case !out.stopped && (took > l.run || waited > l.wait):
			out.stopped = true
			cancel()
		}
	}
}

// cpuTime is what this process has used of the processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memoryInUse is Go's heap, garbage included, or what the system counts where that is more.
func memoryInUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	heap := sample[0].Value.Uint64()
	var pages, resident uint64
	if data, err := os.ReadFile("/proc/self/statm"); err == nil {
		fmt.Sscan(string(data), &pages, &resident)
	}
	return max(heap, resident*uint64(os.Getpagesize()))
}

// allStacks returns the stacks of all goroutines.
func allStacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// busyAt returns where the goroutine that runs the verb stands: its innermost function of this
// module.
func busyAt(stacks string) string {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(stack, "main.runUntil") || strings.Contains(stack, "cmd/memopt.runUntil") {
			if where := firstFrame(stack); where != "" {
				return where
			}
		}
	}
	return "an unknown place"
}

// leaked wants as many goroutines as before, once they have had the time to end.
func leaked(before int) *finding {
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := allStacks()
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if !strings.Contains(stack, "testing.") {
			if where := firstFrame(stack); where != "" {
				return &finding{"goroutines", "one is left at " + where, stacks}
			}
		}
	}
	return &finding{"goroutines", "one is left", stacks}
}
