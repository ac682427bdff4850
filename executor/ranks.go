package executor

import (
	"fmt"
	"time"

	"memopt/graph"
	"memopt/train/collective"
)

// Ranks is a session's access to its group of ranks, for the operators that begin and await collective
// operations. Its methods are for one goroutine; sessions that run one after the other may share it.
//
// A run that ends with an error may leave operations under way, which still write to the session's
// memory: such a group has to be ended (collective.Group.Close) before the session is closed.
type Ranks struct {
	group collective.Group
	begun []begun // under way, the oldest first
	// waited is how long Wait has waited in all.
	waited time.Duration
}

// begun is an operation under way, and the memory that it works in.
type begun struct {
	at     *byte
	ticket collective.Ticket
}

// NewRanks returns the ranks of a group.
func NewRanks(g collective.Group) *Ranks { return &Ranks{group: g} }

// Rank is the number of this rank.
func (r *Ranks) Rank() int { return r.group.Rank() }

// Size is how many ranks there are.
func (r *Ranks) Size() int { return r.group.Size() }

// Waited is the total time that Wait has waited, for data in transit and for slower ranks. Transfers
// behind running kernels do not count.
func (r *Ranks) Waited() time.Duration { return r.waited }

// Start begins an operation in a buffer, which must stay untouched until Wait has returned for it.
func (r *Ranks) Start(o collective.Op, d graph.DType, buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	for _, b := range r.begun {
		if b.at == &buf[0] {
			return fmt.Errorf("an %v begins in memory where another operation has not ended", o)
		}
	}
	t, err := r.group.Start(o, d, buf)
	if err != nil {
		return err
	}
	r.begun = append(r.begun, begun{&buf[0], t})
	return nil
}

// Wait returns when the operation that works in a buffer is done.
func (r *Ranks) Wait(buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	for i, b := range r.begun {
		if b.at == &buf[0] {
			r.begun = append(r.begun[:i], r.begun[i+1:]...)
			since := time.Now()
			err := r.group.Wait(b.ticket)
			r.waited += time.Since(since)
			return err
		}
	}
	return fmt.Errorf("no operation is under way in this memory: a CollectiveWait follows the node that begins it")
}

// Check returns an error if a node for a number of ranks cannot run in a session.
func (r *Ranks) Check(ranks int64) error {
	switch {
	case r == nil:
		return fmt.Errorf("the graph is a step of one of %d ranks: start it with mpirun", ranks)
	case ranks != int64(r.Size()):
		return fmt.Errorf("the graph is a step of one of %d ranks, and %d are running", ranks, r.Size())
	}
	return nil
}
