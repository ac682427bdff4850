package edit

import (
	"cmp"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// sweep removes dead nodes and constants, and puts the nodes in order.
func (e *Editor) sweep() error {
	live := e.live()
	nodes := make([]*graph.Node, 0, len(e.G.Nodes))
	for _, n := range e.G.Nodes {
		switch {
		case e.gone[n.ID]:
		case live[n.ID] || !Pure(n):
			nodes = append(nodes, n)
		default:
			e.changed = true
		}
	}
	if e.changed {
		slices.SortStableFunc(nodes, func(a, b *graph.Node) int { return e.placed(a, b) })
		e.G.SetNodes(nodes)
		if err := e.inOrder(); err != nil {
			return err
		}
	}
	e.dropConstants()
	e.dropDeclarations()
	return nil
}

// inOrder puts nodes behind those that they read from, where an edit has not: files have them so.
func (e *Editor) inOrder() error {
	order, err := graph.Topological(e.G)
	if err != nil {
		return err
	}
	nodes := make([]*graph.Node, len(order))
	for i, id := range order {
		nodes[i] = e.G.Nodes[id]
	}
	e.G.SetNodes(nodes)
	return nil
}

// placed compares the places of nodes: an added one stands in front of the one that was there.
func (e *Editor) placed(a, b *graph.Node) int {
	old := func(n *graph.Node) int { // whether it was there before
		if int(n.ID) < len(e.Order) {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(e.at[a.ID], e.at[b.ID]), cmp.Compare(old(a), old(b)), cmp.Compare(a.ID, b.ID))
}

// live has the nodes that the outputs, or nodes that are more than functions of their inputs, depend
// on.
func (e *Editor) live() []bool {
	live := make([]bool, len(e.G.Nodes))
	var todo []graph.ValueID
	take := func(n *graph.Node) {
		if !live[n.ID] {
			live[n.ID] = true
			todo = append(append(todo, n.Inputs...), n.Captures()...)
		}
	}
	for _, d := range e.G.Outputs {
		todo = append(todo, d.Value)
	}
	for _, n := range e.G.Nodes {
		if !e.gone[n.ID] && !Pure(n) {
			take(n)
		}
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n := e.Maker(v); n != nil {
			take(n)
		}
	}
	return live
}

// dropConstants removes initializers without readers.
func (e *Editor) dropConstants() {
	uses := graph.NewUses(e.G)
	unread := func(v graph.ValueID) bool {
		val := &e.G.Values[v]
		if len(uses.Of(v)) > 0 || val.Output || val.Input {
			return false
		}
		val.Data, val.SparseData, e.changed = nil, nil, true
		return true
	}
	e.G.Initializers = slices.DeleteFunc(e.G.Initializers, unread)
	e.G.Sparse = slices.DeleteFunc(e.G.Sparse, unread)
}

// dropDeclarations drops the file's types of values that no longer exist, and of those that have
// become constants.
func (e *Editor) dropDeclarations() {
	if !e.changed {
		return
	}
	e.G.ValueInfo = slices.DeleteFunc(e.G.ValueInfo, func(d graph.Decl) bool {
		v := &e.G.Values[d.Value]
		return v.Def == graph.NoNode && v.Outer == graph.NoValue && !v.Input
	})
}

// Pure reports whether a node is a function of its inputs that memopt knows: without a reader it can
// be left out, and two with the same inputs make the same.
func Pure(n *graph.Node) bool {
	info := op.Of(n.Kind)
	return n.Kind != op.Unknown && n.Fault() == nil && n.Clash() == nil && info.Class != op.Never &&
		info.Control == op.NoControl && !info.Random && len(info.Mutates) == 0 &&
		!info.Has(op.Yield) && !info.Has(op.PythonRole) && !n.HasSubgraphs()
}
