package live

import (
	"slices"

	"memopt/graph"
)

// WriteLate returns an order in which the next values of some states are made behind all readers of
// the old ones, and, with failing, behind every node that may fail by data (Sizes.Failures): there
// they can be written in the old ones' place. The producer of a next value moves together with its
// dependents up to there. A state stays where it is if that would move a forward node, or if a
// reader depends on the next value itself. Other nodes keep their sequence.
//
// The order that files of other tools have is often another: an update stands right behind its
// gradient, and the parameter's last reader comes later.
func WriteLate(g *graph.Graph, order graph.Order, sizes *Sizes, backward []bool, states []State,
	failing bool) graph.Order {
	m := &lateMover{g: g, order: slices.Clone(order), pos: order.Positions(), sizes: sizes, backward: backward,
		moves: make([]bool, len(g.Nodes)), failing: graph.NoNode}
	for _, id := range order {
		if failing && sizes.Failures != nil && sizes.Failures[id] != 0 {
			m.failing = id
		}
	}
	for _, st := range states {
		m.move(st)
	}
	return m.order
}

// lateMover moves the writers of one state after the other.
type lateMover struct {
	g        *graph.Graph
	order    graph.Order
	pos      []int32 // by node, in order
	sizes    *Sizes
	backward []bool       // by node
	moves    []bool       // by node: it moves with the writer at hand
	failing  graph.NodeID // the last node that may fail, or NoNode
}

// move moves the writer of a state.
func (m *lateMover) move(st State) {
	writer := m.maker(st.Out)
	if writer == graph.NoNode || !m.backward[writer] {
		return
	}
	last := m.lastReader(st.In)
	if m.failing != graph.NoNode {
		last = max(last, m.pos[m.failing])
	}
	first := m.pos[writer]
	if last <= first {
		return
	}
	if !m.follow(writer, last) {
		return
	}
	var moved []graph.NodeID
	at := first
	for _, id := range m.order[first : last+1] {
		if m.moves[id] {
			m.moves[id] = false
			moved = append(moved, id)
			continue
		}
		m.order[at] = id
		at++
	}
	copy(m.order[at:], moved)
	for p := first; p <= last; p++ {
		m.pos[m.order[p]] = p
	}
}

// maker is the node that makes the bytes that a value shows.
func (m *lateMover) maker(v graph.ValueID) graph.NodeID {
	for {
		def := m.g.Values[v].Def
		if def == graph.NoNode || !m.sizes.View(m.g.Nodes[def]) || m.g.Nodes[def].Input(0) == graph.NoValue {
			return def
		}
		v = m.g.Nodes[def].Input(0)
	}
}

// lastReader is the place of the last node that reads an input or a view of it.
func (m *lateMover) lastReader(in graph.ValueID) int32 {
	last, shows := int32(-1), map[graph.ValueID]bool{in: true}
	for place, id := range m.order {
		n := m.g.Nodes[id]
		reads := func(v graph.ValueID) bool { return v != graph.NoValue && shows[v] }
		if !slices.ContainsFunc(n.Inputs, reads) && !slices.ContainsFunc(n.Captures(), reads) {
			continue
		}
		last = int32(place)
		if m.sizes.View(n) && reads(n.Input(0)) && n.Output(0) != graph.NoValue {
			shows[n.Output(0)] = true
		}
	}
	return last
}

// follow marks a writer and its dependents up to a place. It fails, and marks no node, if the node
// at that place or a forward node is among them.
func (m *lateMover) follow(writer graph.NodeID, last int32) bool {
	m.moves[writer] = true
	from := m.pos[writer]
	for p := from + 1; p <= last; p++ {
		id := m.order[p]
		m.g.EachProducer(id, func(producer graph.NodeID) { m.moves[id] = m.moves[id] || m.moves[producer] })
		if m.moves[id] && (p == last || !m.backward[id]) {
			for _, id := range m.order[from : p+1] {
				m.moves[id] = false
			}
			return false
		}
	}
	return true
}
