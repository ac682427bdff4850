package offload

import "fmt"

// Kind is the action of a step.
type Kind uint8

// The kinds of steps.
const (
	Compute Kind = iota // runs a node
	Free                // ends a value's stay on the device
	Offload             // queues the copy of a value to the host
	Reload              // queues its copy back; its memory counts from here on
	Wait                // lets computations wait for the newest copy of a value
)

var kinds = [...]string{"compute", "free", "offload", "reload", "wait"}

func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Step is one step of a schedule.
type Step struct {
	Kind Kind
	Of   int32 // the node of a Compute, else the value; see remat.Problem
}
