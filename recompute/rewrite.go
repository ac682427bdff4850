package recompute

import (
	"slices"

	"memopt/graph"
)

// Sink receives a rewrite: it is the graph that Apply writes, or the program that a planner
// simulates before any graph is written.
type Sink interface {
	// Arrive says that the next nodes stand before a node of the graph, or are that node.
	Arrive(id graph.NodeID) error
	// Clone appends a clone of a node for a placement; place is the place in the order of the node
	// that it stands before.
	Clone(id graph.NodeID, place int32, p *Placement) error
	// Keep appends a node of the graph itself, which stands at a place in the order.
	Keep(id graph.NodeID, place int32)
}

// Emit emits a graph in an order with placements, which are in order, too: the clones for a node
// stand right before it.
func Emit(order graph.Order, placements []Placement, sink Sink) error {
	for place, id := range order {
		if err := sink.Arrive(id); err != nil {
			return err
		}
		for ; len(placements) > 0 && placements[0].Before == id; placements = placements[1:] {
			for _, c := range placements[0].Nodes {
				if err := sink.Clone(c, int32(place), &placements[0]); err != nil {
					return err
				}
			}
		}
		sink.Keep(id, int32(place))
	}
	return nil
}

// Versions knows the current version of each value of a graph during a rewrite: its newest clone, a
// view of it, or the value itself. Backward nodes and clones read the newest version.
type Versions struct {
	newest []graph.ValueID // NoValue: the value itself
	any    bool            // whether any value has another version
}

// Reset starts anew, for a graph with the given number of values.
func (v *Versions) Reset(values int) {
	if len(v.newest) != values {
		v.newest = make([]graph.ValueID, values)
	}
	for i := range v.newest {
		v.newest[i] = graph.NoValue
	}
	v.any = false
}

// Of returns the newest version of a value.
func (v *Versions) Of(id graph.ValueID) graph.ValueID {
	if w := v.newest[id]; w != graph.NoValue {
		return w
	}
	return id
}

// Set makes something the newest version of a value.
func (v *Versions) Set(id, newest graph.ValueID) {
	v.newest[id] = newest
	v.any = true
}

// Rewire returns a list of operands whose first n are the newest versions: a new list if something
// changes, else the list itself.
func (v *Versions) Rewire(in []graph.ValueID, n int) []graph.ValueID {
	if !v.any {
		return in
	}
	shared := true
	for i, id := range in[:n] {
		if id == graph.NoValue || v.newest[id] == graph.NoValue {
			continue
		}
		if shared {
			in, shared = slices.Clone(in), false
		}
		in[i] = v.newest[id]
	}
	return in
}
