package mpi

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Error is an error of the MPI library.
type Error struct {
	Call string // "MPI_Isend"
	Code int
	Text string // the result of MPI_Error_string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: error %d: %s", e.Call, e.Code, e.Text) }

// TimeoutError says that an operation has taken longer than Options.Timeout.
type TimeoutError struct {
	Rank   int    // this one
	Op     string // "operation 12, all-reduce of 400 bytes of type float"
	Waited time.Duration
	// Missing are the ranks that do not answer: stopped, hung or lost. Late are those that answer and
	// have not come to the operation.
	Missing, Late []int
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("rank %d has waited %v for %s", e.Rank, e.Waited.Round(time.Millisecond), e.Op)
	switch {
	case len(e.Missing) > 0:
		s += fmt.Sprintf(": %s not answer", ranks(e.Missing, "does", "do"))
		if len(e.Late) > 0 {
			s += fmt.Sprintf("; %s not come to it", ranks(e.Late, answerOne, answerMany))
		}
	case len(e.Late) > 0:
		s += fmt.Sprintf(": %s not come to it", ranks(e.Late, answerOne, answerMany))
	default:
		s += ": all ranks answer, so their data are on the way; a slow network needs a longer timeout"
	}
	return s
}

const answerOne, answerMany = "answers, but has", "answer, but have"

// ranks lists ranks with a verb: "rank 2 does", "ranks 1, 3 do".
func ranks(list []int, one, several string) string {
	if len(list) == 1 {
		return fmt.Sprintf("rank %d %s", list[0], one)
	}
	text := strings.Trim(fmt.Sprint(slices.Sorted(slices.Values(list))), "[]")
	return fmt.Sprintf("ranks %s %s", strings.ReplaceAll(text, " ", ", "), several)
}
