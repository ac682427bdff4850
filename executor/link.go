package executor

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"memopt/internal/mapfile"
)

// Link is the connection between the device's memory and the host's, for copies of values (Offload, Reload).
// Each direction has one queue of its own: a copy begins when the node that requests it runs and the copy
// before it has ended, and takes the latency and its bytes divided by the rate.
type Link struct {
	// BytesPerSecond is the rate of each direction; 0 is as fast as memory. A session on the CPU, whose
	// device has no other memory, simulates the link: a copy does not end before its time.
	BytesPerSecond float64
	// Latency is the time that each copy takes besides.
	Latency time.Duration
}

// Check returns an error if the link is none.
func (l Link) Check() error {
	switch {
	case !(l.BytesPerSecond >= 0) || math.IsInf(l.BytesPerSecond, 0):
		return fmt.Errorf("a link of %g bytes per second: wanted a number from 0 on; 0 is as fast as memory",
			l.BytesPerSecond)
	case l.Latency < 0:
		return fmt.Errorf("a link with a latency of %v: wanted one from 0 on", l.Latency)
	}
	return nil
}

// took is how long the first n bytes of a copy take.
func (l Link) took(n int) time.Duration {
	if l.BytesPerSecond == 0 {
		return l.Latency
	}
	return l.Latency + time.Duration(float64(n)/l.BytesPerSecond*float64(time.Second))
}

// mover copies the values of a session's frame: a goroutine for each direction, or a device's queues.
type mover struct {
	link  Link
	clock clock
	// queues are the device's own, which copies without the host; nil on the host, where the goroutines do.
	queues CopyQueues
	jobs   []*copyJob // of the graph, in the order of their nodes
	out    chan *copyJob
	in     chan *copyJob
	done   <-chan struct{} // of the context of the run
	// abort is closed, and aborted set, when a run has failed: copies under way end as they are.
	abort   chan struct{}
	aborted atomic.Bool
	moved   Moved
}

// Moved counts the copies that nodes have begun (Offload, Reload) in all runs of a session, and how long nodes
// have waited for their ends.
type Moved struct {
	Copies
	Waited time.Duration
}

// copyJob is the copy that a node begins, in every run.
type copyJob struct {
	dst, src []byte
	mark     Mark          // in a device's queue
	queued   time.Duration // when the node ran
	ends     time.Duration // by the link's rate
	done     chan error    // has room for one
	pending  bool          // begun, and not waited for
}

// clock is the time that the rate of a link goes by.
type clock interface {
	now() time.Duration
	// until returns at a time, earlier if one of the channels is closed.
	until(t time.Duration, timer *time.Timer, done, abort <-chan struct{})
	// ended is told by the thread that runs the nodes that it has waited for a copy that ends at a time.
	ended(t time.Duration)
}

// realClock is the time since it was made.
type realClock struct{ start time.Time }

func (c realClock) now() time.Duration { return time.Since(c.start) }

func (c realClock) ended(time.Duration) {}

func (c realClock) until(t time.Duration, timer *time.Timer, done, abort <-chan struct{}) {
	left := t - c.now()
	if left <= 0 {
		return
	}
	timer.Reset(left)
	select {
	case <-timer.C:
	case <-done:
	case <-abort:
	}
	timer.Stop()
}

// newMover makes a mover without copies. start begins its work, stop ends it.
func newMover(l Link) *mover {
	return &mover{link: l, clock: realClock{time.Now()}, abort: make(chan struct{})}
}

// job is a further copy.
func (m *mover) job() *copyJob {
	j := &copyJob{done: make(chan error, 1)}
	m.jobs = append(m.jobs, j)
	return j
}

func (m *mover) start() (err error) {
	if m.queues != nil {
		for _, j := range m.jobs {
			if j.mark, err = m.queues.NewMark(); err != nil {
				return err
			}
		}
		return nil
	}
	m.out, m.in = make(chan *copyJob, len(m.jobs)), make(chan *copyJob, len(m.jobs))
	go m.serve(m.out)
	go m.serve(m.in)
	return nil
}

// stop ends the goroutines. No copy is under way.
func (m *mover) stop() {
	if m != nil && m.queues != nil {
		for _, j := range m.jobs {
			m.queues.FreeMark(j.mark)
		}
		m.jobs = nil
	}
	if m != nil && m.out != nil {
		close(m.out)
		close(m.in)
		m.out, m.in = nil, nil
	}
}

// begin queues a copy. It must have been waited for since it was last begun.
func (m *mover) begin(j *copyJob, outward bool, dst, src []byte) error {
	if j.pending {
		return fmt.Errorf("the copy that it begins is under way")
	}
	j.dst, j.src, j.queued, j.pending = dst, src, m.clock.now(), true
	to := m.in
	if outward {
		to = m.out
		m.moved.Out++
		m.moved.OutBytes += int64(len(src))
	} else {
		m.moved.In++
		m.moved.InBytes += int64(len(src))
	}
	if m.queues != nil {
		return m.queues.CopyBeside(j.mark, outward, dst, src)
	}
	to <- j
	return nil
}

// wait returns when a copy has ended. It returns early with the context's error if that is done.
func (m *mover) wait(ctx context.Context, j *copyJob) error {
	if !j.pending {
		return nil // another node has waited for it
	}
	if m.queues != nil {
		j.pending = false
		return m.queues.Await(j.mark)
	}
	since := m.clock.now()
	select {
	case err := <-j.done:
		j.pending = false
		m.clock.ended(j.ends)
		m.moved.Waited += m.clock.now() - since
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain ends all copies of a run that has failed, so that their memory can be used again.
func (m *mover) drain() {
	if m == nil {
		return
	}
	if m.queues != nil {
		for _, j := range m.jobs {
			if j.pending {
				j.pending = false
				m.queues.Await(j.mark) // so that DeviceMemory.Sync, which is next, waits for it and tells its error
			}
		}
		return
	}
	m.aborted.Store(true)
	close(m.abort)
	for _, j := range m.jobs {
		if j.pending {
			<-j.done
			j.pending = false
		}
	}
	m.abort = make(chan struct{})
	m.aborted.Store(false)
}

// chunkTime is for how long a link is busy with the bytes that are copied at once, and leastChunk the fewest
// bytes: sleeping between smaller ones would take longer than they do.
const (
	chunkTime  = 2 * time.Millisecond
	leastChunk = 64 << 10
)

// chunk is how many bytes are copied at once.
func (l Link) chunk() int {
	most := 4.0 * (1 << 20)
	if l.BytesPerSecond > 0 {
		most = min(most, l.BytesPerSecond*chunkTime.Seconds())
	}
	return max(int(most), leastChunk)
}

// serve does the copies of a direction, one after the other.
func (m *mover) serve(jobs <-chan *copyJob) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	var free time.Duration // when the copy before has ended
	for j := range jobs {
		start := max(free, j.queued)
		free = start + m.link.took(len(j.src))
		j.ends = free
		j.done <- m.copy(j, start, timer)
	}
}

// copy does a copy that begins at a time. The bytes go over the link as a bucket of tokens lets them: those of
// a chunk are there when the link has had the time for them.
func (m *mover) copy(j *copyJob, start time.Duration, timer *time.Timer) (err error) {
	defer mapfile.Guard(&err)()
	done, abort := m.done, m.abort
	for at, chunk := 0, m.link.chunk(); at < len(j.src) && !m.aborted.Load(); {
		end := min(at+chunk, len(j.src))
		copy(j.dst[at:end], j.src[at:end])
		at = end
		m.clock.until(start+m.link.took(at), timer, done, abort)
	}
	return nil
}
