package executor

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"memopt/internal/mapfile"
)

// Task is the body of a parallel loop. Range does the items lo..hi-1; calls for different
// items run at the same time.
type Task interface {
	Range(lo, hi int)
}

// Pool runs parallel loops on a fixed number of threads. One loop runs at a time.
type Pool struct {
	threads int
	wake    []chan struct{}
	done    sync.WaitGroup

	task     Task
	n, grain int
	next     atomic.Int64
	fault    atomic.Pointer[any] // the value of the first panic

	watch func(thread int, start time.Time, took time.Duration) // nil without a watcher
	busy  []span                                                // of the last loop, by helper
}

// span is when a thread worked.
type span struct {
	start time.Time
	took  time.Duration
}

// Watch has f called after each loop, by the caller of Run, for every thread but its own that took part:
// its number, 1 or more, and when it worked. Call it before the first loop.
func (p *Pool) Watch(f func(thread int, start time.Time, took time.Duration)) {
	p.watch, p.busy = f, make([]span, len(p.wake))
}

// Threads is how many threads a pool has if that many are requested; 0 means one per core.
func Threads(asked int) int {
	if asked <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return asked
}

// NewPool starts a pool; 0 threads mean one per core. Close ends it.
func NewPool(threads int) *Pool {
	threads = Threads(threads)
	p := &Pool{threads: threads}
	for helper := range threads - 1 {
		wake := make(chan struct{}, 1)
		p.wake = append(p.wake, wake)
		go p.worker(helper, wake)
	}
	return p
}

// Close ends the pool's goroutines.
func (p *Pool) Close() {
	for _, w := range p.wake {
		close(w)
	}
	p.wake, p.threads = nil, 1
}

// Threads returns the number of threads.
func (p *Pool) Threads() int { return p.threads }

// Run does the items 0..n-1 of a task in pieces of grain items (the last one may be shorter; pieces
// may come together in one call, so that lo is a multiple of grain). It returns when all are done,
// panics if one of them did, with a Fault if a mapped file has changed, and allocates nothing: a
// pointer to an existing struct makes a Task for free. The results of a task must not depend on the
// pieces.
func (p *Pool) Run(n, grain int, t Task) {
	if n <= 0 {
		return
	}
	grain = max(grain, 1)
	helpers := min(len(p.wake), (n-1)/grain)
	if helpers == 0 {
		t.Range(0, n)
		return
	}
	p.task, p.n, p.grain = t, n, grain
	p.next.Store(0)
	p.done.Add(helpers)
	for _, w := range p.wake[:helpers] {
		w <- struct{}{}
	}
	p.pieces()
	p.done.Wait()
	p.task = nil
	if f := p.fault.Swap(nil); f != nil {
		panic(*f)
	}
	for i := 0; p.watch != nil && i < helpers; i++ {
		p.watch(i+1, p.busy[i].start, p.busy[i].took)
	}
}

// pieces runs one piece after the other to the end.
func (p *Pool) pieces() {
	defer func() {
		if r := recover(); r != nil {
			var value any
			if err := mapfile.Fault(r); err != nil {
				value = Fault{err}
			} else {
				value = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
			p.fault.CompareAndSwap(nil, &value)
		}
	}()
	for {
		lo := int(p.next.Add(int64(p.grain))) - p.grain
		if lo >= p.n {
			return
		}
		p.task.Range(lo, min(lo+p.grain, p.n))
	}
}

func (p *Pool) worker(helper int, wake chan struct{}) {
	debug.SetPanicOnFault(true) // see package mapfile
	for range wake {
		if p.watch == nil {
			p.pieces()
		} else {
			start := time.Now()
			p.pieces()
			p.busy[helper] = span{start, time.Since(start)}
		}
		p.done.Done()
	}
}
