package recompute

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// Replays says which nodes may run a second time at all: more than ONNX Runtime's list admits. A
// plan to a budget chooses among them.
type Replays struct{ policy classPolicy }

// NewReplays returns the rule for a model.
func NewReplays(m *graph.Model) *Replays {
	const arithmetic = 1 // the lowest probe level that admits nodes bound by arithmetic
	return &Replays{classPolicy{newBasePolicy(m, arithmetic)}}
}

// WhyNot returns why a node may not be recomputed, or "" if it may.
func (r *Replays) WhyNot(id graph.NodeID) string {
	n := r.policy.g.Nodes[id]
	if why := r.policy.reject(id); why != "" {
		return why
	}
	if len(op.Of(n.Kind).Mutates) > 0 {
		return fmt.Sprintf("%s updates one of its inputs", r.policy.name(n))
	}
	return uncloneable(r.policy.g, id)
}
