package live

import "memopt/graph"

// Stash is a stashed activation: a value that a forward node makes and that a
// backward node still reads.
type Stash struct {
	Value   graph.ValueID
	Node    graph.NodeID   // producer
	Readers []graph.NodeID // backward readers in order of execution
}

// Stashed lists the stashed activations in the order of their producers, the outputs of one node by
// slot. Graph inputs, initializers and Constant nodes hold no activations.
func Stashed(g *graph.Graph, order graph.Order, backward []bool, constant func(graph.NodeID) bool) []Stash {
	pos := order.Positions()
	uses := graph.NewUses(g)
	var out []Stash
	for _, id := range order {
		if backward[id] || constant(id) {
			continue
		}
		for _, v := range g.Nodes[id].Outputs {
			if v == graph.NoValue {
				continue
			}
			if readers := backwardReaders(uses.Of(v), backward, pos); len(readers) > 0 {
				out = append(out, Stash{v, id, readers})
			}
		}
	}
	return out
}
