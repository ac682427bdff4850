//go:build !nodl

package mpi

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"memopt/graph"
	"memopt/train/collective"
)

// queueLength is the most operations that are begun and not done; Start then waits for one.
const queueLength = 1024

// group is the ranks of a job as this process sees them.
type group struct {
	options Options
	engine  *engine

	mu      sync.Mutex
	changed sync.Cond // signalled when done, err or quit change
	queue   [queueLength]operation
	begun   collective.Ticket // the newest in the queue
	done    collective.Ticket
	err     error // why the group has ended
	closed  bool
	quit    bool // no more calls will come

	wake  chan struct{} // gets an element when the engine has something to do
	idle  *time.Timer   // of the engine, while it is idle
	abort atomic.Int64  // the argument of Abort, shifted by 1; 0 before the call
}

// operation is a rank's call.
type operation struct {
	collective.Call
	do  func(*engine, *operation) error
	buf []byte // of Start and Broadcast, else mine
	all []byte
}

// open starts the thread that calls MPI.
func open(ctx context.Context, o Options) (collective.Group, error) {
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	g := &group{options: o, wake: make(chan struct{}, 1), idle: time.NewTimer(idlePoll)}
	g.changed.L = &g.mu
	started := make(chan error, 1)
	go g.serve(started)
	select {
	case err := <-started:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("MPI has not started on all %d ranks: %w", o.Launch.Size, ctx.Err())
	}
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	if o.Log != nil {
		o.Log(fmt.Sprintf("rank %d of %d by %s: %s (%s)", o.Launch.Rank, o.Launch.Size, o.Launch.Launcher,
			g.engine.lib.version, g.engine.lib.path))
	}
	return g, nil
}

// serve does the operations of the queue. It is all that calls MPI, from the first call to the last,
// on one thread, which ends with it.
func (g *group) serve(started chan<- error) {
	runtime.LockOSThread()
	e, err := newEngine(g)
	g.engine = e
	started <- err
	if err != nil {
		return
	}
	for g.next() {
		o := &g.queue[g.done%queueLength]
		g.finish(e.perform(o, g.done+1))
	}
}

// An idle rank polls, every idlePoll, for others that ask if it is there.
const idlePoll = 100 * time.Millisecond

// next waits for an operation. It reports false when the group ends.
func (g *group) next() bool {
	for {
		g.mu.Lock()
		ready, quit := g.begun > g.done && g.err == nil, g.quit
		g.mu.Unlock()
		if quit {
			return false
		}
		if ready {
			return true
		}
		g.idle.Reset(idlePoll)
		select {
		case <-g.wake:
		case <-g.idle.C:
		}
		if err := g.engine.attend(); err != nil {
			g.fail(err)
		}
	}
}

// finish takes the oldest operation from the queue.
func (g *group) finish(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue[g.done%queueLength] = operation{}
	if err != nil {
		g.err = err
	} else {
		g.done++
	}
	g.changed.Broadcast()
}

// fail ends the group with an error unless it has ended, and returns the error that it has ended
// with.
func (g *group) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		g.changed.Broadcast()
	}
	return g.err
}

// Rank is the number of this rank.
func (g *group) Rank() int { return g.options.Launch.Rank }

// Size is the number of ranks.
func (g *group) Size() int { return g.options.Launch.Size }

// StagingBytes is the memory outside Go's heap.
func (g *group) StagingBytes() int64 { return g.engine.staging }

// Start begins an operation.
func (g *group) Start(op collective.Op, d graph.DType, buf []byte) (collective.Ticket, error) {
	if err := collective.Check(op, d, buf, g.Size()); err != nil {
		return 0, g.fail(err)
	}
	return g.begin(operation{collective.Call{What: op.String(), DType: d, Root: -1, Bytes: len(buf)},
		g.engine.operations[op], buf, nil})
}

// begin queues an operation.
func (g *group) begin(o operation) (collective.Ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.begun-g.done == queueLength && g.err == nil {
		g.changed.Wait()
	}
	if g.err != nil {
		return 0, g.err
	}
	if g.closed && o.Call != collective.CallClose {
		return 0, collective.ErrClosed
	}
	g.queue[g.begun%queueLength] = o
	g.begun++
	g.rouse()
	return g.begun, nil
}

// rouse tells the engine that there is something to do.
func (g *group) rouse() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Wait returns when an operation is done.
func (g *group) Wait(t collective.Ticket) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t > g.begun {
		return fmt.Errorf("rank %d waits for operation %d, and has begun %d", g.Rank(), t, g.begun)
	}
	for g.done < t && g.err == nil {
		g.changed.Wait()
	}
	if g.done >= t {
		return nil
	}
	return g.err
}

// call begins an operation and waits for it.
func (g *group) call(o operation) error {
	t, err := g.begin(o)
	if err != nil {
		return err
	}
	return g.Wait(t)
}

// Exchange gathers messages in all ranks.
func (g *group) Exchange(mine, all []byte) error {
	if err := collective.CheckGather(mine, all, g.Size()); err != nil {
		return g.fail(err)
	}
	return g.call(operation{collective.Call{What: "exchange", Root: -1, Bytes: len(mine)}, (*engine).exchange, mine,
		all})
}

// Gather gathers messages in root.
func (g *group) Gather(root int, mine, all []byte) error {
	err := collective.CheckRoot(root, g.Size())
	if err == nil && root == g.Rank() {
		err = collective.CheckGather(mine, all, g.Size())
	}
	if err != nil {
		return g.fail(err)
	}
	return g.call(operation{collective.Call{What: "gather", Root: root, Bytes: len(mine)}, (*engine).exchange, mine,
		all})
}

// Broadcast copies root's buffer.
func (g *group) Broadcast(root int, buf []byte) error {
	if err := collective.CheckRoot(root, g.Size()); err != nil {
		return g.fail(err)
	}
	return g.call(operation{collective.Call{What: "broadcast", Root: root, Bytes: len(buf)}, (*engine).broadcast, buf,
		nil})
}

// abortGrace is how long Abort leaves the ending of this process to MPI.
const abortGrace = 5 * time.Second

// Abort ends the processes of all ranks.
func (g *group) Abort(code int) {
	g.abort.CompareAndSwap(0, int64(uint8(code))<<1|1)
	g.rouse()
	time.Sleep(abortGrace)
	os.Exit(code)
}

// Close waits for the other ranks to close, and ends MPI. After an error, MPI ends with the process.
func (g *group) Close() error {
	g.mu.Lock()
	again, failed := g.closed, g.err != nil
	g.closed = true
	g.mu.Unlock()
	if again {
		return nil
	}
	var err error
	if !failed {
		err = g.call(operation{Call: collective.CallClose, do: (*engine).close})
	}
	g.mu.Lock()
	g.quit = true
	g.mu.Unlock()
	g.rouse()
	return err
}
