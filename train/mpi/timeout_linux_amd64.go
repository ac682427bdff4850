//go:build !nodl

package mpi

import (
	"encoding/binary"
	"fmt"
	"time"

	"memopt/train/collective"
)

// answerGrace is how long ranks have to say that they are there.
const answerGrace = 2 * time.Second

// timedOut asks all other ranks whether they are there, and makes the error of an operation that has
// waited too long.
func (e *engine) timedOut(waited time.Duration) error {
	// The answers to this rank's question lie behind those that it gives.
	answers := e.answers[e.size*questionBytes:]
	var asking requests
	list := make([]byte, 2*e.size*e.lib.request)
	asking.at = address(list)
	mine := make([]byte, questionBytes)
	binary.LittleEndian.PutUint64(mine, uint64(e.rank)+1)
	for q := range e.size {
		if q == e.rank {
			continue
		}
		if err := e.receive(&asking, answers[q*questionBytes:][:questionBytes], q, tagAnswer); err != nil {
			return err
		}
		if err := e.send(&asking, mine, q, tagQuestion); err != nil {
			return err
		}
	}
	e.kept = [][]byte{list, mine} // the library has their addresses
	for since := time.Now(); time.Since(since) < answerGrace; nap(longNap) {
		done, err := e.test(&asking)
		if err != nil {
			return err
		}
		if done {
			break
		}
		if err := e.attend(); err != nil {
			return err
		}
	}
	out := &TimeoutError{Rank: e.rank, Op: e.operationName(), Waited: waited}
	for q := range e.size {
		switch {
		case q == e.rank:
		case binary.LittleEndian.Uint64(answers[q*questionBytes:]) == 0:
			out.Missing = append(out.Missing, q)
		case e.arriving && binary.LittleEndian.Uint64(e.headerOf(q)) != uint64(e.current):
			out.Late = append(out.Late, q)
		}
	}
	return out
}

// operationName is how messages call the current operation.
func (e *engine) operationName() string {
	o := &e.group.queue[(e.current-1)%queueLength]
	if o.Call == collective.CallClose {
		return "the other ranks to close"
	}
	return fmt.Sprintf("operation %d, %v", e.current, o.Call)
}
