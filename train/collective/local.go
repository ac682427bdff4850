package collective

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"memopt/graph"
)

// ErrAborted is the error of a group that one of its ranks has aborted.
var ErrAborted = errors.New("the group was aborted")

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the group is closed")

// Local returns n ranks in one process, for example for tests; each serves other goroutines. Sums are
// made in the order of the ranks, ((g0+g1)+g2)+…, so that their bits are always the same. An
// operation is done by the rank that is the last to begin it.
func Local(n int) []Group {
	if n < 1 {
		panic(fmt.Sprintf("collective: a group of %d ranks", n))
	}
	c := &local{ranks: make([]*localRank, n), calls: make([]localCall, n)}
	c.moved.L = &c.mu
	groups := make([]Group, n)
	for r := range groups {
		c.ranks[r] = &localRank{group: c, rank: r}
		groups[r] = c.ranks[r]
	}
	return groups
}

// local is the state that the ranks of one process share.
type local struct {
	mu    sync.Mutex
	moved sync.Cond // signalled when an operation is done, and when the group ends
	ranks []*localRank
	calls []localCall // the operation that is being done, as each rank has called it
	sum   []byte
	err   error // why the group has ended
}

// localRank is one rank. Its calls wait in a queue until all ranks have one.
type localRank struct {
	group  *local
	rank   int
	queue  []localCall // begun and not done, the oldest first
	begun  Ticket
	done   Ticket
	closed bool
}

// localCall is a rank's call: an operation of Start, or one of the others.
type localCall struct {
	Call
	do  func(*local)
	buf []byte // of Start and Broadcast, else mine
	all []byte
}

// Rank is the number of this rank.
func (l *localRank) Rank() int { return l.rank }

// Size is the number of ranks.
func (l *localRank) Size() int { return len(l.group.ranks) }

// StagingBytes is 0: the ranks see each other's memory.
func (l *localRank) StagingBytes() int64 { return 0 }

var localOps = [...]func(*local){
	AllReduce: (*local).sumAll, ReduceScatter: (*local).sumPieces, AllGather: (*local).gatherPieces,
}

// Start begins an operation.
func (l *localRank) Start(op Op, d graph.DType, buf []byte) (Ticket, error) {
	if err := Check(op, d, buf, l.Size()); err != nil {
		return 0, l.group.end(err)
	}
	return l.begin(localCall{Call{op.String(), d, -1, len(buf)}, localOps[op], buf, nil})
}

// Wait returns when an operation is done.
func (l *localRank) Wait(t Ticket) error {
	c := l.group
	c.mu.Lock()
	defer c.mu.Unlock()
	if t > l.begun {
		return fmt.Errorf("rank %d waits for operation %d, and has begun %d", l.rank, t, l.begun)
	}
	for l.done < t && c.err == nil {
		c.moved.Wait()
	}
	if l.done >= t {
		return nil
	}
	return c.err
}

// Exchange gathers messages in all ranks.
func (l *localRank) Exchange(mine, all []byte) error {
	if err := CheckGather(mine, all, l.Size()); err != nil {
		return l.group.end(err)
	}
	return l.call(localCall{Call{"exchange", 0, -1, len(mine)}, (*local).exchange, mine, all})
}

// Gather gathers messages in root.
func (l *localRank) Gather(root int, mine, all []byte) error {
	err := CheckRoot(root, l.Size())
	if err == nil && root == l.rank {
		err = CheckGather(mine, all, l.Size())
	}
	if err != nil {
		return l.group.end(err)
	}
	if root != l.rank {
		all = nil
	}
	return l.call(localCall{Call{"gather", 0, root, len(mine)}, (*local).exchange, mine, all})
}

// Broadcast copies root's buffer.
func (l *localRank) Broadcast(root int, buf []byte) error {
	if err := CheckRoot(root, l.Size()); err != nil {
		return l.group.end(err)
	}
	return l.call(localCall{Call{"broadcast", 0, root, len(buf)}, (*local).broadcast, buf, nil})
}

// Abort ends the group: further calls of all ranks return an error.
func (l *localRank) Abort(code int) {
	l.group.end(fmt.Errorf("%w by rank %d with exit code %d", ErrAborted, l.rank, code))
}

// Close waits for the other ranks to close.
func (l *localRank) Close() error {
	c := l.group
	c.mu.Lock()
	closed, ended := l.closed, c.err != nil
	l.closed = true
	c.mu.Unlock()
	if closed || ended {
		return nil
	}
	return l.call(localCall{Call: CallClose, do: func(*local) {}})
}

// call begins an operation and waits for it.
func (l *localRank) call(call localCall) error {
	t, err := l.begin(call)
	if err != nil {
		return err
	}
	return l.Wait(t)
}

// begin queues a call, and completes the operations that all ranks have begun.
func (l *localRank) begin(call localCall) (Ticket, error) {
	c := l.group
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if l.closed && call.Call != CallClose {
		return 0, ErrClosed
	}
	l.begun++
	l.queue = append(l.queue, call)
	t := l.begun
	for c.step() {
	}
	return t, c.err
}

// step does the oldest operation if all ranks have begun it.
func (c *local) step() bool {
	for r, l := range c.ranks {
		if len(l.queue) == 0 || c.err != nil {
			return false
		}
		c.calls[r] = l.queue[0]
	}
	for r := range c.calls {
		if c.calls[r].Call != c.calls[0].Call {
			c.err = &MismatchError{c.ranks[0].done + 1, [2]int{0, r}, [2]Call{c.calls[0].Call, c.calls[r].Call}}
			c.moved.Broadcast()
			return false
		}
	}
	c.calls[0].do(c)
	clear(c.calls)
	for _, l := range c.ranks {
		l.queue = slices.Delete(l.queue, 0, 1)
		l.done++
	}
	c.moved.Broadcast()
	return true
}

// end ends the group with an error unless it has ended before, and returns the error that it has
// ended with.
func (c *local) end(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.moved.Broadcast()
	}
	return c.err
}

// sumAll sums whole buffers.
func (c *local) sumAll() {
	c.makeSum(0, c.calls[0].Bytes)
	for _, to := range c.calls {
		copy(to.buf, c.sum)
	}
}

// sumPieces sums each rank's piece.
func (c *local) sumPieces() {
	n := c.calls[0].Bytes / len(c.calls)
	for r, to := range c.calls {
		c.makeSum(r*n, (r+1)*n)
		copy(to.buf[r*n:], c.sum)
	}
}

// makeSum sums bytes from..to of all ranks' buffers.
func (c *local) makeSum(from, to int) {
	c.sum = append(c.sum[:0], c.calls[0].buf[from:to]...)
	for _, g := range c.calls[1:] {
		Add(g.DType, c.sum, c.sum, g.buf[from:to])
	}
}

// gatherPieces gives all ranks each rank's piece.
func (c *local) gatherPieces() {
	n := c.calls[0].Bytes / len(c.calls)
	for r, from := range c.calls {
		for _, to := range c.calls {
			copy(to.buf[r*n:], from.buf[r*n:(r+1)*n])
		}
	}
}

// exchange gives those who want them all messages.
func (c *local) exchange() {
	for r, from := range c.calls {
		for _, to := range c.calls {
			if to.all != nil {
				copy(to.all[r*from.Bytes:], from.buf)
			}
		}
	}
}

// broadcast gives all ranks the root's buffer.
func (c *local) broadcast() {
	for _, to := range c.calls {
		copy(to.buf, c.calls[to.Root].buf)
	}
}
