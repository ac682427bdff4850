package memopt

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"memopt/graph"
	"memopt/symbolic"
	"memopt/view/timeline"
)

// The entries in the metadata of nodes that describe the plan, for viewers of graphs such as Netron.
// memopt never reads them: a plan of the file is made anew.
const (
	// BytesKey has the bytes that the node puts into memory.
	BytesKey = "memopt.bytes"
	// LiveKey has the live range of the node's outputs, in runs of nodes counted from 1 in the order
	// of the plan: "17 to 45 of 533".
	LiveKey = "memopt.live"
	// DecisionKey has a timeline.Decision in one word, and the original of a clone.
	DecisionKey = "memopt.decision"
)

// Annotate describes the plan in the metadata of the rewritten graph's nodes, in place of the entries
// of an earlier rewrite. With unknown sizes, no entry is written.
func (r *Rewritten) Annotate() error {
	nodes := r.Model.Graph.Nodes
	for _, n := range nodes {
		forget(n)
	}
	t, err := timeline.Of(r.By.Plan)
	if unbound := (*symbolic.UnboundError)(nil); errors.As(err, &unbound) {
		return nil
	}
	if err != nil {
		return &Error{OfMemopt, fmt.Errorf("%s: %w", r.By.Of.Path, err)}
	}
	runs := runsOf(t)
	made, until, decisions := t.Made(), t.Until(), t.Decisions()
	for i, old := range r.Origin {
		if old == graph.NoNode {
			continue
		}
		at := runs.next(old)
		if at < 0 {
			continue
		}
		decision := decisions[at].String()
		if first := t.Steps[at].Repeats; first >= 0 {
			decision += " of " + t.Steps[first].Name
		}
		nodes[i].EditRare(func(x *graph.Rare) {
			x.Metadata = append(slices.Clone(x.Metadata),
				graph.Property{Key: BytesKey, Value: strconv.FormatInt(made[at], 10)},
				graph.Property{Key: LiveKey, Value: fmt.Sprintf("%d to %d of %d", at+1, until[at]+1, len(t.Steps))},
				graph.Property{Key: DecisionKey, Value: decision})
		})
	}
	return nil
}

// forget removes the entries of an earlier rewrite.
func forget(n *graph.Node) {
	old := func(p graph.Property) bool { return p.Key == BytesKey || p.Key == LiveKey || p.Key == DecisionKey }
	if slices.ContainsFunc(n.Rare().Metadata, old) {
		n.EditRare(func(r *graph.Rare) { r.Metadata = slices.DeleteFunc(slices.Clone(r.Metadata), old) })
	}
}

// nodeRuns knows the steps that run each node, in order.
type nodeRuns struct {
	first []int32 // by node: one past its next step; 0 if there is none left
	later []int32 // by step: one past the next one that runs the same node
}

func runsOf(t *timeline.Timeline) *nodeRuns {
	r := &nodeRuns{make([]int32, len(t.Graph.Nodes)), make([]int32, len(t.Steps))}
	for i := len(t.Steps) - 1; i >= 0; i-- {
		node := t.Steps[i].Node
		r.later[i], r.first[node] = r.first[node], int32(i)+1
	}
	return r
}

// next is the next step that runs a node; -1 if there is none left.
func (r *nodeRuns) next(node graph.NodeID) int {
	at := int(r.first[node]) - 1
	if at >= 0 {
		r.first[node] = r.later[at]
	}
	return at
}
