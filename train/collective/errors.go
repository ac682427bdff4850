package collective

import (
	"fmt"

	"memopt/graph"
)

// Call is the part of a rank's call that must be the same in all ranks.
type Call struct {
	What  string      // "all-reduce"
	DType graph.DType // Undefined for a call without a type
	Root  int         // -1 for a call without a root
	Bytes int         // of this rank's buffer
}

// CallClose is the call of Close.
var CallClose = Call{What: "close", Root: -1}

func (c Call) String() string {
	if c == CallClose {
		return c.What
	}
	s := fmt.Sprintf("%s of %d bytes", c.What, c.Bytes)
	if c.DType != graph.Undefined {
		s += fmt.Sprintf(" of type %v", c.DType)
	}
	if c.Root >= 0 {
		s += fmt.Sprintf(" with root %d", c.Root)
	}
	return s
}

// MismatchError means that two ranks have made different calls at the same place.
type MismatchError struct {
	Ticket Ticket // of the operation, counted from 1
	Ranks  [2]int // in ascending order
	Calls  [2]Call
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the ranks disagree about operation %d: rank %d calls %v, rank %d %v; all ranks must do "+
		"the same in the same order", e.Ticket, e.Ranks[0], e.Calls[0], e.Ranks[1], e.Calls[1])
}

// CheckGather returns an error for invalid buffers of Exchange or Gather.
func CheckGather(mine, all []byte, ranks int) error {
	if len(all) != len(mine)*ranks {
		return fmt.Errorf("messages of %d bytes from %d ranks need %d bytes, not %d", len(mine), ranks,
			len(mine)*ranks, len(all))
	}
	return nil
}

// CheckRoot returns an error for a root that is no rank.
func CheckRoot(root, ranks int) error {
	if root < 0 || root >= ranks {
		return fmt.Errorf("there is no rank %d: wanted 0 to %d", root, ranks-1)
	}
	return nil
}
