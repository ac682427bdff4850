package graph

// Use is one reading of a value: by input Slot of a node, or, with a negative
// Slot, by the node's subgraphs.
type Use struct {
	Node NodeID
	Slot int32
}

// Captured is the Slot of a use by a subgraph.
const Captured int32 = -1

// Uses lists the readers of every value in ascending order of node and slot.
// It is a snapshot: an edit of the graph makes it stale.
type Uses struct {
	start []int32
	uses  []Use
}

// NewUses indexes the readers of all values of a graph.
func NewUses(g *Graph) *Uses {
	u := &Uses{start: make([]int32, len(g.Values)+1)}
	g.eachUse(func(id ValueID, _ Use) { u.start[id+1]++ })
	for i := 1; i < len(u.start); i++ {
		u.start[i] += u.start[i-1]
	}
	u.uses = make([]Use, u.start[len(g.Values)])
	next := append([]int32(nil), u.start[:len(g.Values)]...)
	g.eachUse(func(id ValueID, use Use) {
		u.uses[next[id]] = use
		next[id]++
	})
	return u
}

// Of returns the readers of a value. The slice is shared: do not edit it.
func (u *Uses) Of(id ValueID) []Use { return u.uses[u.start[id]:u.start[id+1]] }

func (g *Graph) eachUse(f func(ValueID, Use)) {
	for _, n := range g.Nodes {
		for _, id := range n.Captures() {
			f(id, Use{n.ID, Captured})
		}
		for slot, id := range n.Inputs {
			if id != NoValue {
				f(id, Use{n.ID, int32(slot)})
			}
		}
	}
}
