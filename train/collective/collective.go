// Package collective has the collective operations of a job's ranks: sums of gradients, pieces of
// them, gathers of weights that are divided among the ranks, and small messages. A rank is one
// process of a job, or one Group of several in a process, numbered from 0.
//
// The names are MPI's (MPI: A Message-Passing Interface Standard 4.1, chapter 6). Package train/mpi
// has the groups of processes that mpirun starts; Local has those of one process.
package collective

import (
	"fmt"

	"memopt/graph"
)

// Op is an operation on a buffer of each rank. For operations on pieces, the buffer consists of one
// piece for each rank, of equal length.
type Op uint8

const (
	// AllReduce replaces each element by its sum over the ranks. For example, [1 2] and [3 4] become [4
	// 6] on both.
	AllReduce Op = iota
	// ReduceScatter does so in the piece of the buffer that belongs to the rank; the other pieces are
	// undefined afterwards.
	ReduceScatter
	// AllGather fills all pieces with those of their ranks; each gives its own.
	AllGather
)

var opNames = [...]string{AllReduce: "all-reduce", ReduceScatter: "reduce-scatter", AllGather: "all-gather"}

// String returns the operation's name in messages.
func (o Op) String() string {
	if int(o) >= len(opNames) {
		return fmt.Sprintf("Op(%d)", int(o))
	}
	return opNames[o]
}

// Ticket names an operation that has begun: they are numbered from 1 in the order of Start.
type Ticket uint64

// Group is the ranks of a job as one of them sees it. All ranks call the same methods with the same
// operations, types and lengths in the same order. One goroutine may call Start and Wait while the
// other methods are not in use. From the second use of a length on they do not allocate.
//
// Every error ends the group: pending operations are not completed, and later calls return the same
// error.
type Group interface {
	// Rank is the number of this rank, Size how many there are.
	Rank() int
	Size() int
	// Start begins an operation on elements of a type, float32 or float64 (for AllGather: of any type),
	// and returns at once. The buffer belongs to the group until Wait has returned for the ticket.
	// Operations are done one after the other, in the order of Start.
	Start(op Op, d graph.DType, buf []byte) (Ticket, error)
	// Wait returns when an operation, and all before it, are done.
	Wait(t Ticket) error
	// Exchange gathers a message of each rank, of equal length, in all: rank r's at r*len(mine).
	Exchange(mine, all []byte) error
	// Gather is Exchange for root alone; all is nil on the other ranks.
	Gather(root int, mine, all []byte) error
	// Broadcast gives every rank root's buffer, of equal length.
	Broadcast(root int, buf []byte) error
	// StagingBytes is the memory that the group itself keeps for its work.
	StagingBytes() int64
	// Abort ends the processes of all ranks with an exit code, as far as the launcher can. It does not
	// return if the ranks are processes.
	Abort(code int)
	// Close waits for the other ranks to close, and frees everything. After an error it does not
	// wait.
	Close() error
}
